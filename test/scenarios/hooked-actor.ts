/**
 * The same methods with hooks twice: `hooked` runs them in the worker, `apart` in processes of their own, which load this
 * file. What runs is noted in the file that the job's `meta.ledger` names, if it does, a line each.
 */
import { appendFileSync } from "node:fs"
import { Effect } from "effect"
// Not from "callboard", which is half of what a process would load.
import { actor } from "../../runtime/actor/actor.ts"
import type { Job } from "../../runtime/actor/job.ts"

const note = ({ meta, state }: Job<unknown>, what: string): void => {
  const { ledger } = meta
  if (typeof ledger === "string") appendFileSync(ledger, `${what} ${state}\n`)
}

const noted = {
  onSuccess: async (result: unknown, job: Job<unknown>) => note(job, `onSuccess ${JSON.stringify(result)}`),
  onFailure: (error: Error, job: Job<unknown>) => Effect.sync(() => note(job, `onFailure ${error.name}`)),
  onStopped: (job: Job<unknown>) => note(job, `onStopped ${process.pid}`),
}

const begun = (_input: unknown, job: Job<unknown>) => {
  note(job, "run")
  return { answer: 42 }
}

const failing = (_input: unknown, job: Job<unknown>): never => {
  note(job, "run")
  throw new TypeError("no such thing")
}

const hookFails = () => Promise.reject(new RangeError("the hook failed"))

const methods = {
  works: { ...noted, run: begun },
  fails: { ...noted, run: failing },
  successFails: { ...noted, run: begun, onSuccess: hookFails },
  failureFails: { ...noted, run: failing, onFailure: hookFails },
  /** Blocks its process for ever. */
  spins: {
    ...noted,
    run: (_input: unknown, job: Job<unknown>): never => {
      note(job, `run ${process.pid}`)
      for (;;);
    },
  },
  /** Never ends, unless it is stopped. */
  endless: {
    ...noted,
    run: (_input: unknown, job: Job<unknown>) => {
      note(job, `run ${process.pid}`)
      return new Promise((_resolve, reject) => {
        const timer = setInterval(() => undefined, 60_000)
        job.signal.addEventListener("abort", () => {
          clearInterval(timer)
          reject(job.signal.reason)
        })
      })
    },
  },
  /** As a callback or an errback: what it finds of the job that it follows. */
  parent: async (_input: unknown, job: Job<unknown>) => {
    const { id, state, result, error } = (await job.parent()) ?? {}
    return { id, state, result, error: error?.message, parentId: job.parentId, rootId: job.rootId }
  },
}

export const hooked = actor("hooked", { methods })
export const apart = actor("apart", { module: import.meta.url, isolation: "process", methods })
