/** Runs the tasks of a flow in their order, as steps and scopes of a job. */
import { StepError, type Steps } from "../actor/step.ts"
import { refuseInput } from "../options/refuse.ts"
import type { FlowOrder, Ordered } from "./order.ts"

/** Values by their names. */
export type FlowValues = Readonly<Record<string, unknown>>

/** The values that a flow or a task has provided. `ignoreNext`: whether what follows it is ignored. */
export interface Provided {
  readonly values: FlowValues
  readonly ignoreNext: boolean
}

/** A task of a flow, or a flow within it. */
export interface Part extends Ordered {
  /** Whether it runs; it is ignored otherwise. */
  readonly when: ((input: FlowValues) => unknown) | undefined
  /** Runs it as a step or scope of this name. */
  readonly begin: (job: Steps, name: string, input: FlowValues) => Promise<Provided>
}

/** `input` has everything that the tasks require and none of them provides. */
export const runParts = async (
  parts: ReadonlyMap<string, Part>,
  { before, ignoredWith }: FlowOrder,
  parallel: number,
  job: Steps,
  input: FlowValues,
): Promise<Provided> => {
  const provided = new Map<string, unknown>()
  const waiting = new Map(parts)
  const running = new Map<string, Promise<unknown>>()
  const over = new Set<string>()
  const ignored = new Set<string>()
  const failures: Array<unknown> = []
  let ignoreNext = false

  const run = async (name: string, { requires, depth, when, begin }: Part): Promise<void> => {
    if (ignored.has(name)) return
    // Each part sees the values that it requires and no others, so that it does not depend on what has ended by chance.
    const valueOf = (value: string) => (provided.has(value) ? provided.get(value) : input[value])
    const own = Object.fromEntries(requires.map((value) => [value, valueOf(value)]))
    const isMet = when === undefined || when(own)
    if (typeof isMet !== "boolean") refuseInput("when", `of ${name} must return true or false`)
    const done = isMet ? await begin(job, name, own) : { values: {}, ignoreNext: depth === "all" }
    for (const [value, each] of Object.entries(done.values)) provided.set(value, each)
    const ends = done.ignoreNext ? "all" : isMet ? undefined : depth
    if (ends !== undefined) for (const each of ignoredWith(name, ends)) ignored.add(each)
    if (done.ignoreNext) ignoreNext = true
  }

  while (waiting.size > 0 || running.size > 0) {
    for (const [name, part] of waiting) {
      if (failures.length > 0 || running.size >= parallel) break
      if (before.get(name)?.isSubsetOf(over) === false) continue
      waiting.delete(name)
      const ended = run(name, part)
        .then(() => over.add(name))
        .catch((failure: unknown) => failures.push(failure))
      running.set(
        name,
        ended.finally(() => running.delete(name)),
      )
    }
    if (running.size === 0) break
    await Promise.race(running.values())
  }
  if (failures.length > 0) throw failureOf(failures)
  // In the order in which the tasks are listed, and not in that in which they ended.
  const listed = [...parts.values()].flatMap(({ provides }) => provides).filter((value) => provided.has(value))
  return { values: Object.fromEntries(listed.map((value) => [value, provided.get(value)])), ignoreNext }
}

/** The failure of the flow: a task that rejects the job decides, and one that asks for a retry only if no other has failed. */
const failureOf = (failures: ReadonlyArray<unknown>): unknown => {
  const named =
    (...names: ReadonlyArray<string>) =>
    (failure: unknown) =>
      failure instanceof StepError && names.some((name) => failure.is(name))
  const asks = named("Retry", "Ignore")
  const failed = failures.filter((failure) => !asks(failure))
  if (failed.length < 2 || failed.some(named("Reject"))) return failed.find(named("Reject")) ?? failed[0] ?? failures[0]
  const messages = failed.map((failure) => (failure instanceof Error ? failure.message : String(failure)))
  return new AggregateError(failed, `${failed.length} tasks failed: ${messages.join("; ")}`)
}
