/**
 * Both levels of the kit for one driver: what the driver promises by itself, then the rules of the runtime over it. With a
 * test runner or without one.
 */
import { withJobs } from "../../runtime/transport/job-store/with-jobs.ts"
import { type DriverHarness, partsOf } from "./driver/harness.ts"
import { registerDriver, runDriverConformance } from "./driver/run.ts"
import type { Harness } from "./harness.ts"
import {
  type RegisterOptions,
  type Report,
  type RunOptions,
  registerRules,
  registerSmoke,
  runRulesConformance,
  type TestFunction,
} from "./run.ts"

/** The harness of the second level: the same driver, made a transport by the runtime. */
export const overRuntime = (harness: DriverHarness): Harness => {
  const { capabilities, connect, second, ...ground } = harness
  return {
    ...ground,
    name: harness.name,
    canList: partsOf(harness).includes("query"),
    capabilities,
    connect: async (options) => withJobs(await connect.call(harness, options), options),
    ...(second === undefined
      ? {}
      : { second: async (options) => withJobs(await second.call(harness, options), options) }),
  }
}

/** The titles of the second level begin with this. */
const RUNTIME = "with the runtime, "

const titled = (test: TestFunction): TestFunction => {
  const { skip, concurrent } = test
  const add: TestFunction = (title, run, timeout) => test(RUNTIME + title, run, timeout)
  return Object.assign(add, {
    ...(skip === undefined ? {} : { skip: (title: string, run: () => Promise<void>) => skip(RUNTIME + title, run) }),
    ...(concurrent === undefined
      ? {}
      : {
          concurrent: (title: string, run: () => Promise<void>, timeout: number) =>
            concurrent(RUNTIME + title, run, timeout),
        }),
  })
}

/** Registers all cases with a test runner. */
export const register = (test: TestFunction, harness: DriverHarness, options: RegisterOptions = {}): void => {
  registerDriver(test, harness, options)
  registerRules(titled(test), overRuntime(harness), options)
}

/**
 * As `register`, for a plugin of this repository: the rules are tried whole over the least driver, so that only those cases
 * follow that a transport can change.
 */
export const registerPlugin = (test: TestFunction, harness: DriverHarness, options: RegisterOptions = {}): void => {
  registerDriver(test, harness, options)
  registerSmoke(titled(test), overRuntime(harness), options)
}

/** Runs all cases without a test runner. Never rejects because of a case. */
export const runConformance = async (harness: DriverHarness, options: RunOptions = {}): Promise<Report> => {
  const driver = await runDriverConformance(harness, options)
  const rules = await runRulesConformance(overRuntime(harness), options)
  const results = [...driver.results, ...rules.results.map((each) => ({ ...each, title: RUNTIME + each.title }))]
  return {
    name: harness.name,
    total: driver.total + rules.total,
    passed: driver.passed + rules.passed,
    failed: driver.failed + rules.failed,
    skipped: driver.skipped + rules.skipped,
    results,
  }
}
