/** What a seed chooses: the board, the workers, the jobs and the faults. */
import type { Submission } from "../../runtime/jobs/submission/submission.ts"
import type { Random } from "../../runtime/testing/random.ts"
import type { Plan } from "../chaos/history.ts"
import type { Call, Faults } from "./wire.ts"

export interface PlannedJob {
  readonly plan: Plan
  readonly submission: Submission & { readonly id: string }
}

export interface SeedPlan {
  readonly leaseMs: number
  /** The driver of the kit with a pause between any two steps of a commit; else the one in memory. */
  readonly isStepwise: boolean
  readonly workers: number
  readonly concurrency: number
  readonly prefetch: number
  /** Jobs that are submitted together, one list after the other. */
  readonly batches: ReadonlyArray<ReadonlyArray<PlannedJob>>
  readonly faults: Faults
  /** The only call that faults strike; absent: all. */
  readonly focus: Call | undefined
  /** Faults at most. */
  readonly budget: number
  /** When a worker is stopped in good order, and replaced. */
  readonly stopAt: number | undefined
}

const QUIET: Faults = { lostRequest: 0, lostAnswer: 0, slow: 0, freeze: 0, kill: 0, cut: 0, lostNews: 0 }
const KINDS = ["lostRequest", "lostAnswer", "slow", "freeze", "kill", "cut", "lostNews"] as const

const CALLS: ReadonlyArray<Call> = ["commits", "commits", "takes", "writes", "extends", "reads", "posts"]

/** Some kinds of faults at a time find more than all of them at once: one fault hides another. */
const faultsOf = (random: Random): Pick<SeedPlan, "faults" | "focus"> => {
  const focus = random.chance(0.5) ? random.pick(CALLS) : undefined
  const likely = random.pick(focus === undefined ? [0.005, 0.015, 0.04] : [0.05, 0.2])
  const faults = { ...QUIET }
  for (const kind of KINDS) if (random.chance(0.5)) faults[kind] = likely
  return { faults, focus }
}

const JOBS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]

/** Few kinds of jobs at a time get into each other's way more often. */
const jobsOf = (random: Random): ReadonlyArray<number> =>
  random.chance(0.4) ? [random.pick(JOBS), random.pick(JOBS)] : JOBS

const jobOf = (random: Random, kind: number, id: string, before: ReadonlyArray<PlannedJob>): PlannedJob => {
  const ms = random.pick([0, 1, 5, 20, 150, 600, 2_500])
  const base = { id, failures: 0, followUps: 0 }
  const task = (method: string, input: object = { ms }) => ({ id, task: `sim.${method}`, input })
  const timed = random.chance(0.15) ? { delay: random.pick([0.05, 1]) } : {}
  switch (kind) {
    case 0:
      return { plan: { ...base, kind: "plain" }, submission: { ...task("step"), ...timed } }
    case 1: {
      const failures = random.int(1, 2)
      return { plan: { ...base, kind: "retry", failures }, submission: task("step", { ms, failures }) }
    }
    case 2:
      return {
        plan: { ...base, kind: "errback", failures: 1, followUps: 1 },
        submission: { ...task("fail"), errbacks: [{ task: "sim.heard" }] },
      }
    case 3:
      return {
        plan: { ...base, kind: "chain", followUps: 2 },
        submission: {
          ...task("step"),
          chain: [
            { task: "sim.step", input: { ms: 5 }, immutable: true },
            { task: "sim.step", input: { ms: 5 }, immutable: true },
          ],
        },
      }
    case 4:
      return {
        plan: { ...base, kind: "chain", followUps: 1 },
        submission: { ...task("effect"), callbacks: [{ task: "sim.heard" }] },
      }
    case 5:
    case 6:
      return { plan: { ...base, kind: "plain" }, submission: task("limited") }
    case 7:
      return { plan: { ...base, kind: "once" }, submission: task("once") }
    default: {
      const parents = before.filter(() => random.chance(0.4)).slice(0, 2)
      if (parents.length === 0) return { plan: { ...base, kind: "plain" }, submission: { ...task("step"), ...timed } }
      const after = parents.map(({ plan }) => plan.id)
      return {
        plan: { ...base, kind: "after", after },
        submission: { ...task("step"), after: { ids: after, allowFailure: true } },
      }
    }
  }
}

export const planOf = (random: Random, nextId: () => string): SeedPlan => {
  const jobs: Array<PlannedJob> = []
  const batches: Array<Array<PlannedJob>> = []
  const kinds = jobsOf(random)
  for (let left = random.int(3, 8); left > 0; ) {
    const batch: Array<PlannedJob> = []
    for (let size = Math.min(left, random.int(1, 6)); size > 0; size--) {
      const job = jobOf(random, random.pick(kinds), nextId(), jobs)
      jobs.push(job)
      batch.push(job)
      left--
    }
    batches.push(batch)
  }
  return {
    leaseMs: random.pick([1_000, 1_000, 1_500, 3_000]),
    isStepwise: random.chance(0.5),
    workers: random.int(1, 3),
    concurrency: random.pick([1, 2, 4]),
    prefetch: random.pick([1, 2, 4]),
    batches,
    ...faultsOf(random),
    // Without a fault, no job may run twice.
    budget: random.chance(0.2) ? 0 : random.int(1, 8),
    stopAt: random.chance(0.25) ? random.int(100, 3_000) : undefined,
  }
}
