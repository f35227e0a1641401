/**
 * The conformance kit (`callboard/conformance`): says whether a transport keeps the promises of `callboard/transport`.
 *
 * ```ts
 * import { test } from "vitest" // or "bun:test", "node:test"
 * import { register } from "callboard/conformance"
 * register(test, { name: "mine", capabilities, connect: (options) => plugin.connect(url, options) })
 * ```
 *
 * Without a runner, `runConformance(harness)` gives a report. Sizes are small; `KIT=full` makes them large.
 */
export { type Case, type Need, titleOf } from "./case.ts"
export { cases } from "./cases.ts"
export { BrokenPromise } from "./check.ts"
export type { Context } from "./context.ts"
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
