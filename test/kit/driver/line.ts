/**
 * A driver over a line that can be cut. The board behind the line outlives each cut, so the driver may declare
 * durability.
 */
import type { Capabilities, Committed, Driver, News, Receipt } from "../../../runtime/transport/driver.ts"
import { type ConnectOptions, TransportError } from "../../../runtime/transport/mod.ts"
import type { Line } from "../line.ts"

type Failed = Extract<Receipt | Committed, { readonly status: "failed" }>

/** The answer for an item of a call whose answer was lost, and which may have been done. Throws all other errors. */
const failed = (error: unknown): Failed => {
  if (error instanceof TransportError && error.outcome === "unknown") return { status: "failed", error }
  throw error
}

export const overLine =
  (line: Line, connect: (options: ConnectOptions) => Promise<Driver>, capabilities: Capabilities) =>
  async (options: ConnectOptions): Promise<Driver> => {
    const driver = await line.guard(() => connect(options))()
    if (options.reconnectDelay) line.onStatus((status) => status === "disconnected" && options.reconnectDelay?.(1))
    const { store, query, queues, waiting, orphans, broadcast } = driver
    const publish = line.guard(driver.publish)
    const commit = line.guard(driver.commit)
    return {
      ...driver,
      capabilities,
      publish: (postings) => publish(postings).catch((error: unknown) => postings.map(() => failed(error))),
      commit: (commits) => commit(commits).catch((error: unknown) => commits.map(() => failed(error))),
      // A take must end with the cut, or it would take tasks that its caller never gets.
      take: line.guard((request, signal) => driver.take(request, AbortSignal.any([signal, line.cutting]))),
      extend: line.guard(driver.extend),
      read: line.guard(driver.read),
      listen: line.guard(async (interest, listener, signal) => {
        const heard = (news: News): void => {
          if (!line.cutting.aborted) listener(news)
        }
        await driver.listen(interest, heard, signal)
        const stop = line.onStatus((status) => status === "connected" && listener({ kind: "missed" }))
        signal.addEventListener("abort", stop, { once: true })
      }),
      ...(query && { query: line.guard(query) }),
      ...(queues && { queues: line.guard(queues) }),
      ...(waiting && { waiting: line.guard(waiting) }),
      ...(orphans && { orphans: line.guard(orphans) }),
      ...(broadcast && {
        broadcast: {
          send: line.guard(broadcast.send),
          listen: line.guard((topic, listener, signal) => {
            const heard = (payload: Uint8Array): void => {
              if (!line.cutting.aborted) listener(payload)
            }
            return broadcast.listen(topic, heard, signal)
          }),
        },
      }),
      store: {
        ...store,
        get: line.guard(store.get),
        write: line.guard(store.write),
        list: line.guard(store.list),
        now: line.guard(store.now),
      },
      onStatus: (listener) => line.onStatus(listener),
    }
  }
