/** Runs the cases about drivers: with any test runner, or without one. */
import {
  DEFAULT_LEASE,
  DEFAULT_TIMEOUT,
  type RegisterOptions,
  type Report,
  type RunOptions,
  registerSuite,
  runSuite,
  type Suite,
  type TestFunction,
} from "../run.ts"
import type { DriverCase } from "./case.ts"
import { driverCases } from "./cases.ts"
import { DriverContext } from "./context.ts"
import type { DriverHarness } from "./harness.ts"

/** Runs one case on one driver. Rejects with the broken promise. */
export const runDriverCase = (
  { lease = DEFAULT_LEASE, timeout = DEFAULT_TIMEOUT, run }: DriverCase,
  harness: DriverHarness,
): Promise<void> => DriverContext.run(harness, { lease, timeout }, run)

const suite: Suite<DriverHarness, DriverContext> = { cases: driverCases, runCase: runDriverCase }

/** Registers all cases about drivers with a test runner. */
export const registerDriver = (test: TestFunction, harness: DriverHarness, options: RegisterOptions = {}): void =>
  registerSuite(suite, test, harness, options)

/** Runs all cases about drivers without a test runner. Never rejects because of a case. */
export const runDriverConformance = (harness: DriverHarness, options: RunOptions = {}): Promise<Report> =>
  runSuite(suite, harness, options)
