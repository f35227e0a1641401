/**
 * The conformance kit (`callboard/conformance`): says whether a driver keeps the promises of `callboard/transport`, by itself
 * and with the rules of the runtime over it.
 *
 * ```ts
 * import { test } from "vitest" // or "bun:test", "node:test"
 * import { register } from "callboard/conformance"
 * register(test, { name: "mine", capabilities, connect: (options) => plugin.connect(url, options) })
 * ```
 *
 * Without a runner, `runConformance(harness)` gives a report. Sizes are small; `KIT=full` makes them large.
 */
export { BrokenPromise } from "./check.ts"
export { register, runConformance } from "./conformance.ts"
export type { DriverHarness as Harness, DriverPart as Part } from "./driver/harness.ts"
export type { CaseResult, RegisterOptions, Report, RunOptions, TestFunction } from "./run.ts"
