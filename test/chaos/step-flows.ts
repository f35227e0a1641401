/** Flows of durable steps, and how each must end at whatever write its worker dies. */
import type { Job } from "callboard"

/** Makes the function of a step. The function notes in the ledger that the step began. */
export type Act = (what: string) => () => string | Promise<string>
/** Makes the options of a step with a revert. The revert notes in the ledger that it began. */
export type Undo = (what: string) => { readonly revert: () => unknown }

export interface StepsOfRun {
  readonly run: (job: Job, act: Act, reverting: Undo) => Promise<unknown>
  readonly state: "succeeded" | "failed" | "cancelled"
  /** Names of the steps and reverts that begin in a run without a death, in order; a revert has a minus before its name. */
  readonly log: string
  /** Most steps that run at the same time: these may run twice when the worker dies. */
  readonly atOnce: number
}

const no = (act: () => string | Promise<string>) => async () => {
  throw new Error(`no ${await act()}`)
}

export const stepSessions: Readonly<Record<string, StepsOfRun>> = {
  plain: {
    state: "succeeded",
    log: "a b c d",
    atOnce: 2,
    run: async (job, act) => {
      await job.step("a", act("a"))
      await Promise.all([job.step("b", act("b")), job.step("c", act("c"))])
      return job.step("d", act("d"))
    },
  },
  parallel: {
    state: "succeeded",
    log: "n1 n2 n3 n4",
    atOnce: 2,
    run: (job, act) => job.each("n", [1, 2, 3, 4], (n) => act(`n${n}`)(), { key: String, parallel: 2 }),
  },
  caught: {
    state: "succeeded",
    log: "a b instead c",
    atOnce: 1,
    run: async (job, act, reverting) => {
      await job.step("a", act("a"), reverting("a"))
      await job
        .step("b", no(act("b")), reverting("b"))
        .catch(() => job.step("instead", act("instead"), reverting("instead")))
      await job.step("c", act("c"))
    },
  },
  saga: {
    state: "failed",
    log: "a b x c -c -b -a",
    atOnce: 2,
    run: async (job, act, reverting) => {
      await job.step("a", act("a"), reverting("a"))
      await Promise.all([job.step("b", act("b"), reverting("b")), job.step("x", act("x"))])
      await job.step("c", no(act("c")), reverting("c"))
    },
  },
  cancelled: {
    state: "cancelled",
    log: "a b -b -a",
    atOnce: 1,
    run: async (job, act, reverting) => {
      await job.step("a", act("a"), reverting("a"))
      const cancels = async () => {
        await act("b")()
        await job.job(job.id).cancel()
      }
      await job.step("b", cancels, reverting("b"))
      // This step may begin before the worker learns of the cancellation.
      await job.step("c", () => undefined)
    },
  },
}

/** A step or revert that began, and the id of the process in which it did. */
export interface Begun {
  readonly what: string
  readonly pid: number
}

export interface StepsEnd {
  readonly state: string
  readonly begun: ReadonlyArray<Begun>
  /** Id of the process that died or was frozen. */
  readonly victim: number
  /** The steps in the journal at that moment: names of steps with an outcome; a reverted step has a minus before its name. */
  readonly stored: ReadonlySet<string>
}

/** The rules that the end of a flow breaks, a sentence for each. */
export const problemsOf = (flow: StepsOfRun, { state, begun, victim, stored }: StepsEnd): ReadonlyArray<string> => {
  const problems: Array<string> = []
  if (state !== flow.state) problems.push(`it ends ${state}`)
  const names = begun.map(({ what }) => what)
  const wanted = flow.log.split(" ")
  const [twice, twiceReverted] = [new Set<string>(), new Set<string>()]
  for (const what of new Set([...wanted, ...names])) {
    const count = names.filter((each) => each === what).length
    if (!wanted.includes(what) || count === 0 || count > 2) problems.push(`${what} began ${count} times`)
    if (count === 2) (what.startsWith("-") ? twiceReverted : twice).add(what)
    if (stored.has(what) && begun.some((each) => each.what === what && each.pid !== victim))
      problems.push(`${what} was stored and began again`)
    const reverted = names.lastIndexOf(`-${what}`)
    if (wanted.includes(`-${what}`) && reverted < names.lastIndexOf(what)) problems.push(`${what} stays done`)
  }
  if (twice.size > flow.atOnce || twiceReverted.size > 1)
    problems.push(`${[...twice, ...twiceReverted]} began twice, and ${flow.atOnce} run at a time`)
  const reverts = (log: ReadonlyArray<string>) => [...new Set(log.filter((each) => each.startsWith("-")))].join(" ")
  if (reverts(names) !== reverts(wanted)) problems.push(`reverted ${reverts(names)}`)
  return problems
}
