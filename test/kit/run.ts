/** Runs cases: with any test runner, or without one. */
import { type Case, type CaseOf, spared, titleOf } from "./case.ts"
import { cases, ruleCases } from "./cases.ts"
import { Context } from "./context.ts"
import type { Harness } from "./harness.ts"
import { RESTART_MS } from "./stage.ts"

export const DEFAULT_LEASE = 30_000
/** Much longer than any case takes, since a busy machine must not fail one. */
export const DEFAULT_TIMEOUT = 60_000

/** The cases of one level of the kit, and the function that runs one. It rejects with the broken promise. */
export interface Suite<H, C> {
  readonly cases: ReadonlyArray<CaseOf<H, C>>
  readonly runCase: (each: CaseOf<H, C>, harness: H) => Promise<void>
}

/** Runs one case on one harness. Rejects with the broken promise. */
export const runCase = (
  { lease = DEFAULT_LEASE, timeout = DEFAULT_TIMEOUT, run }: Case,
  harness: Harness,
): Promise<void> => Context.run(harness, { lease, timeout }, run)

const everything: Suite<Harness, Context> = { cases, runCase }
const rules: Suite<Harness, Context> = { cases: ruleCases, runCase }
const smoke: Suite<Harness, Context> = { cases: ruleCases.filter((each) => each.smoke), runCase }

/** `test` of vitest, `bun:test` or `node:test`, or a function that calls another one. */
export interface TestFunction {
  /** `timeout` is in milliseconds, longer than the case's own. */
  (title: string, run: () => Promise<void>, timeout: number): unknown
  /** Registers skipped cases; the reason is in the title. */
  readonly skip?: (title: string, run: () => Promise<void>) => unknown
  /** Registers cases that may run at the same time. */
  readonly concurrent?: (title: string, run: () => Promise<void>, timeout: number) => unknown
}

export interface RegisterOptions {
  /**
   * What happens to cases that do not apply to the transport: `skip` registers them with `test.skip`, the reason in the
   * title; `omit` does not register them. Defaults to `skip`.
   */
  readonly spared?: "skip" | "omit"
}

/** Registers the cases about the rules of the runtime with a test runner. */
export const registerRules = (test: TestFunction, harness: Harness, options: RegisterOptions = {}): void =>
  registerSuite(rules, test, harness, options)

/** Registers those that stand for the rules of their group. */
export const registerSmoke = (test: TestFunction, harness: Harness, options: RegisterOptions = {}): void =>
  registerSuite(smoke, test, harness, options)

/** Registers all cases about the runtime over a driver, also those whose result no driver can change. */
export const registerLifted = (test: TestFunction, harness: Harness, options: RegisterOptions = {}): void =>
  registerSuite(everything, test, harness, options)

export const registerSuite = <H, C>(
  suite: Suite<H, C>,
  test: TestFunction,
  harness: H,
  options: RegisterOptions = {},
): void => {
  for (const each of suite.cases) {
    const title = titleOf(each)
    const reason = spared(each, harness)
    const run = (): Promise<void> => suite.runCase(each, harness)
    if (reason !== undefined) {
      if (options.spared !== "omit") test.skip?.(`${title} (skipped: ${reason})`, run)
    } else {
      const add = each.exclusive ? test : (test.concurrent ?? test)
      // Deadlines of cases stand still while the broker is restarted, which only exclusive ones ask for, twice at most.
      add(title, run, (each.timeout ?? DEFAULT_TIMEOUT) + 10_000 + (each.exclusive ? 2 * RESTART_MS : 0))
    }
  }
}

export interface CaseResult {
  readonly title: string
  readonly outcome: "passed" | "failed" | "skipped"
  /** Why the case was skipped, or which promise is broken. */
  readonly reason?: string
  readonly error?: unknown
  readonly ms: number
}

export interface Report {
  readonly name: string
  readonly total: number
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  /** In the order of the cases. */
  readonly results: ReadonlyArray<CaseResult>
}

export interface RunOptions {
  /** Only cases whose title contains this. */
  readonly only?: string
  /** How many cases run at the same time. Defaults to 8. */
  readonly concurrency?: number
  /** Called after each case. */
  readonly onResult?: (result: CaseResult) => void
}

/** Runs the cases about the rules of the runtime without a test runner. Never rejects because of a case. */
export const runRulesConformance = (harness: Harness, options: RunOptions = {}): Promise<Report> =>
  runSuite(rules, harness, options)

/** Runs the cases that {@link registerLifted} registers. */
export const runLiftedConformance = (harness: Harness, options: RunOptions = {}): Promise<Report> =>
  runSuite(everything, harness, options)

export const runSuite = async <H extends { readonly name: string }, C>(
  suite: Suite<H, C>,
  harness: H,
  options: RunOptions,
): Promise<Report> => {
  const { only = "", concurrency = 8, onResult } = options
  const chosen = suite.cases.filter((each) => titleOf(each).includes(only))
  const results = new Map<CaseOf<H, C>, CaseResult>()
  const runOne = async (each: CaseOf<H, C>): Promise<void> => {
    const result = await resultOf(suite, each, harness)
    results.set(each, result)
    onResult?.(result)
  }
  const together = chosen.filter((each) => !each.exclusive).values()
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      for (const each of together) await runOne(each)
    }),
  )
  for (const each of chosen) if (each.exclusive) await runOne(each)
  const ordered = chosen.flatMap((each) => results.get(each) ?? [])
  const count = (outcome: CaseResult["outcome"]): number => ordered.filter((each) => each.outcome === outcome).length
  return {
    name: harness.name,
    total: ordered.length,
    passed: count("passed"),
    failed: count("failed"),
    skipped: count("skipped"),
    results: ordered,
  }
}

const resultOf = async <H, C>(suite: Suite<H, C>, each: CaseOf<H, C>, harness: H): Promise<CaseResult> => {
  const title = titleOf(each)
  const reason = spared(each, harness)
  if (reason !== undefined) return { title, outcome: "skipped", reason, ms: 0 }
  const start = performance.now()
  const ms = (): number => Math.round(performance.now() - start)
  try {
    await suite.runCase(each, harness)
    return { title, outcome: "passed", ms: ms() }
  } catch (error) {
    return { title, outcome: "failed", reason: error instanceof Error ? error.message : String(error), error, ms: ms() }
  }
}
