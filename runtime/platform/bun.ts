/** Faults and limits of Bun that the runtime works around, each with the version in which it was seen, so that it can go. */
import type { Writable } from "node:stream"

/**
 * Resolves when a stream of the process has written everything; nothing can be written to it any more. On Bun 1.4.5 the
 * callback of an empty write comes at once, before what was written earlier, so that the stream is ended.
 */
export const allWritten = (stream: Writable): Promise<void> =>
  new Promise((resolve) => {
    stream.end(() => resolve())
  })
