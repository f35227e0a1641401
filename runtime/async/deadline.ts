/** Bounds on what the transport takes to answer: a request to an unreachable one must end. */

import { READ_DEADLINE_MS } from "../http/limits.ts"
import { TransportError } from "../transport/mod.ts"

/** What `work` comes to, unless it takes longer than `ms`; then fails with `late()`. The work itself goes on. */
export const within = <T>(ms: number, work: Promise<T>, late: () => Error): Promise<T> =>
  new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), ms)
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })

/** An answer of the transport that a reader waits for. Fails with `unavailable` when it takes too long. */
export const reading = <T>(work: Promise<T>): Promise<T> =>
  within(
    READ_DEADLINE_MS,
    work,
    () => new TransportError("unavailable", `the transport did not answer within ${READ_DEADLINE_MS / 1000} s`),
  )
