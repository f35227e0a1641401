/** Derives the state of each step from the entries of a journal. Pure. */
import type { Reverting } from "../protocol/record.ts"
import type { Entry, StepEntry, StepFailure, WaitEntry } from "./page.ts"

export interface StepState {
  readonly name: string
  readonly state: "done" | "failed" | "reverted" | "revert-failed"
  /** Position of the outcome in the journal: steps are replayed in this order, and reverted in the reverse order. */
  readonly order: number
  readonly at: number
  readonly took: number
  readonly tries: number
  /** Whether the step has a function that reverts it. */
  readonly revert: boolean
  readonly value?: unknown
  /** Key under which the result is stored, where it is too large for a page. */
  readonly large?: string
  readonly failure?: StepFailure
  /** How many times the job had been retried when the step failed. */
  readonly retries?: number
  /** Position of the entry by which a scope has reverted the step. */
  readonly undone?: number
  /** Why the revert of the step failed for good. */
  readonly revertFailure?: StepFailure
}

export interface Folded {
  readonly steps: ReadonlyMap<string, StepState>
  /** What the handler has begun to wait for and has not got, oldest first, by name. */
  readonly waits: ReadonlyMap<string, WaitEntry>
  /** Numbers of the signals that ended a wait. */
  readonly taken: ReadonlySet<number>
  /** Why the steps are reverted; set once reverting has begun. */
  readonly ending: Reverting | undefined
  /** The highest fence of all deliveries that have opened the journal. */
  readonly opened: string
  /** How many claims the job had when the delivery that wrote the last entry opened the journal. */
  readonly claims: number
}

const outcomeOf = (entry: Extract<StepEntry, { kind: "ok" | "err" | "tried" }>, order: number): StepState => {
  const { step: name, at, took, tries } = entry
  const known = { name, order, at, took, tries, revert: entry.kind !== "tried" && entry.revert === true }
  if (entry.kind !== "ok") return { ...known, state: "failed", failure: entry.failure, retries: entry.retries }
  const { large, value = null } = entry
  return { ...known, state: "done", ...(large === undefined ? { value } : { large }) }
}

export const fold = (entries: ReadonlyArray<Entry>): Folded => {
  const steps = new Map<string, StepState>()
  const waits = new Map<string, WaitEntry>()
  const taken = new Set<number>()
  let ending: Reverting | undefined
  let opened = ""
  let claims = 0
  let claimed = 0
  for (const [order, entry] of entries.entries()) {
    if (entry.kind === "open") {
      if (entry.fence > opened) opened = entry.fence
      claimed = entry.claims
      continue
    }
    claims = claimed
    if (entry.kind === "wait") {
      // The first one stands: a handler that comes to its wait again waits no longer than it was to.
      if (!waits.has(entry.step)) waits.set(entry.step, entry)
      continue
    }
    if (entry.kind === "ok" || entry.kind === "err") waits.delete(entry.step)
    // What a try that has failed still waited for must not take a signal of the next one.
    if (entry.kind === "tried") for (const name of waits.keys()) if (isWithin(entry.step, name)) waits.delete(name)
    if (entry.kind === "ok" && entry.signal !== undefined) taken.add(entry.signal)
    if (entry.kind === "reverting") {
      // The first reason stands: a job whose steps are reverted because it failed is not cancelled afterwards.
      ending ??= entry.ending
    } else if (entry.kind === "ok" || entry.kind === "err" || entry.kind === "tried")
      steps.set(entry.step, outcomeOf(entry, order))
    else {
      const { step: name, at, took, tries } = entry
      // The outcome of this step was not stored: its worker may have died while it ran.
      const before = steps.get(name) ?? { name, order, at, took, tries, revert: true }
      const after =
        entry.kind === "reverted"
          ? { state: "reverted" as const, ...(ending === undefined ? { undone: order } : {}) }
          : { state: "revert-failed" as const, revertFailure: entry.failure }
      steps.set(name, { ...before, ...after })
    }
  }
  return { steps, waits, taken, ending, opened, claims }
}

/**
 * The stored outcome of a step that the handler reaches; `undefined` where the step is to run. A failure from an
 * earlier retry of the job does not count, so that the step runs again. While steps are reverted it does count, so that
 * the handler takes the same path as before; `retries` is `undefined` where those of a scope are.
 */
export const outcomeFor = (folded: Folded, name: string, retries: number | undefined): StepState | undefined => {
  const step = folded.steps.get(name)
  // A step during which the worker died has no outcome, but may have been reverted.
  if (step === undefined || (step.failure ?? step.large ?? step.value) === undefined) return undefined
  const isVoid =
    step.failure !== undefined && retries !== undefined && step.retries !== retries && folded.ending === undefined
  return isVoid ? undefined : step
}

/**
 * The steps to revert next, in order, out of all steps with a revert that the handler has reached: the last completed
 * one first. A step without an outcome may have run: it comes before them, the last reached one first. `ending.sure`
 * says that no step was under way, so steps without an outcome are left out.
 */
export const toRevert = (folded: Folded, reached: ReadonlyArray<string>): ReadonlyArray<string> => {
  const orderOf = (name: string, at: number) => {
    const step = folded.steps.get(name)
    return step === undefined ? Number.MAX_SAFE_INTEGER - reached.length + at : step.order
  }
  return reached
    .map((name, at) => ({ name, order: orderOf(name, at) }))
    .filter(({ name }) => !isReverted(folded.steps.get(name)) && (folded.steps.has(name) || !folded.ending?.sure))
    .sort((one, other) => other.order - one.order)
    .map(({ name }) => name)
}

const isReverted = (step: StepState | undefined): boolean => step?.state === "reverted"

/** Names of the steps with a revert that were not reverted, oldest first. */
export const unreverted = ({ steps }: Folded): ReadonlyArray<string> =>
  [...steps.values()].filter((step) => step.revert && !isReverted(step)).map(({ name }) => name)

/** Whether this is the name of a step, a wait or a try inside of this try of a scope. */
export const isWithin = (label: string, name: string): boolean => name.startsWith(`${label}/`)

/** What the journal says of a failed try of a scope. */
export interface Tried {
  readonly failure: StepFailure
  /** How many times the job had been retried when the try failed. */
  readonly retries: number
  /** Position of the entry with which the try was over: it had failed, or its last step was reverted. */
  readonly order: number
  /** The steps that the scope has not reverted, the last completed one first. */
  readonly pending: ReadonlyArray<StepState>
}

/** `undefined`: the try has not failed, as far as it is stored. */
export const triedOf = ({ steps }: Folded, label: string): Tried | undefined => {
  const tried = steps.get(label)
  if (tried?.failure === undefined) return undefined
  const reverting = [...steps.values()].filter(({ name, revert }) => revert && isWithin(label, name))
  return {
    failure: tried.failure,
    retries: tried.retries ?? 0,
    order: Math.max(tried.order, ...reverting.map(({ undone = 0 }) => undone)),
    pending: reverting.filter(({ undone }) => undone === undefined).sort((one, other) => other.order - one.order),
  }
}

/** Whether this try of a scope has begun, as far as it is stored. */
export const hasBegun = ({ steps, waits }: Folded, label: string): boolean =>
  [...steps.keys(), ...waits.keys()].some((name) => name === label || isWithin(label, name))

/** A number of retries before that of every attempt: a failure of an earlier run. */
const EARLIER_RUN = -1

/**
 * The entries with which the next run begins when a job is run again by hand. Completed steps are kept where nothing
 * was reverted but tries of scopes, which stay as they are. A job whose reverting has not come to its end, because a revert failed for good or the job was terminated,
 * goes on reverting: a revert that was under way may have had its effect. A job whose steps were reverted begins with none.
 * `fromStep`: a step that runs again, as all do that had not ended before it.
 */
export const keptEntries = (entries: ReadonlyArray<Entry>, fromStep?: string): ReadonlyArray<Entry> => {
  const folded = fold(entries)
  if (folded.ending === undefined) {
    // A wait that is not over comes after all that has ended.
    const end = (fromStep === undefined ? undefined : folded.steps.get(fromStep)?.order) ?? entries.length
    const before = entries.slice(0, end)
    const tried = before.flatMap((entry) => (entry.kind === "tried" ? entry.step : []))
    return before.flatMap((entry) => {
      if (entry.kind === "tried") return { ...entry, retries: EARLIER_RUN }
      // A scope has reverted the step later, so that its result does not count any more.
      if (entry.kind === "ok") return (folded.steps.get(entry.step)?.undone ?? -1) >= end ? [] : entry
      const isKept = entry.kind === "err" || entry.kind === "reverted"
      return isKept && tried.some((label) => isWithin(label, entry.step)) ? entry : []
    })
  }
  return unreverted(folded).length > 0 ? entries.filter(({ kind }) => kind !== "open" && kind !== "revert-failed") : []
}
