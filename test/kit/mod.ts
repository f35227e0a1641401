/**
 * The conformance kit (`callboard/conformance`): says whether a transport keeps the promises of `callboard/transport`.
 *
 * ```ts
 * import { test } from "vitest" // or "bun:test", "node:test"
 * import { register } from "callboard/conformance"
 * register(test, { name: "mine", capabilities, connect: (options) => plugin.connect(url, options) })
 * ```
 *
 * Without a runner, `runConformance(harness)` gives a report. `registerDriver` and `runDriverConformance` do the same for a
 * `Driver`, without the rules that the runtime lays over it. Sizes are small; `KIT=full` makes them large.
 */
export { type Case, type Need, titleOf } from "./case.ts"
export { cases } from "./cases.ts"
export { BrokenPromise } from "./check.ts"
export type { Context } from "./context.ts"
export type { DriverCase } from "./driver/case.ts"
export { driverCases } from "./driver/cases.ts"
export type { DriverContext } from "./driver/context.ts"
export type { DriverHarness, DriverPart } from "./driver/harness.ts"
export { registerDriver, runDriverCase, runDriverConformance } from "./driver/run.ts"
export type { Harness, Part } from "./harness.ts"
export type { Peer } from "./peer.ts"
export {
  type CaseResult,
  type Report,
  type RunOptions,
  register,
  runCase,
  runConformance,
  type TestFunction,
} from "./run.ts"
