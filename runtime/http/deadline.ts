/** Bounds on what the transport takes to answer: a request to an unreachable one must end. */

import { within } from "../async/deadline.ts"
import { TransportError } from "../transport/mod.ts"
import { READ_DEADLINE_MS } from "./limits.ts"

/** An answer of the transport that a reader waits for. Fails with `unavailable` when it takes too long. */
export const reading = <T>(work: Promise<T>): Promise<T> =>
  within(
    READ_DEADLINE_MS,
    work,
    () => new TransportError("unavailable", `the transport did not answer within ${READ_DEADLINE_MS / 1000} s`),
  )
