/** Makes a driver whose `take` waits and whose store can be watched, from a driver that has neither. */
import type { Driver } from "../../../runtime/transport/driver.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import { sleep } from "../stage.ts"

/** The watchers of the store of one namespace, of all connections. */
export type Watchers = Set<(key: string, value?: Uint8Array) => void>

export const eagerDriver = (driver: Driver, watchers: Watchers): Driver => {
  const closing = new AbortController()
  const { store } = driver
  const tell = (key: string, value?: Uint8Array): void => {
    for (const watcher of watchers) watcher(key, value)
  }
  return {
    ...driver,
    capabilities: { ...driver.capabilities, waits: true },
    take: async (request, signal) => {
      const end = performance.now() + request.wait
      const stop = new AbortController()
      const either = AbortSignal.any([signal, closing.signal, stop.signal])
      let wake = (): void => undefined
      if (request.wait > 0) await driver.listen({ kind: "queues", queues: request.queues }, () => wake(), either)
      try {
        for (;;) {
          const woken = new Promise<void>((resolve) => {
            wake = resolve
            either.addEventListener("abort", () => resolve(), { once: true })
          })
          const taken = await driver.take(request, signal)
          const left = Math.ceil(end - performance.now())
          if (taken.deliveries.length > 0 || left <= 0 || either.aborted) return taken
          await Promise.race([woken, sleep(Math.max(Math.min(left, taken.next ?? left), 1))])
        }
      } finally {
        stop.abort()
      }
    },
    store: {
      ...store,
      write: async (operations) => {
        const answer = await store.write(operations)
        if (answer === "conflict") return answer
        for (const { key, value, ttl } of operations) {
          if (value === undefined) continue
          tell(key, value?.slice())
          if (ttl !== undefined) setTimeout(() => tell(key), ttl + 5).unref()
        }
        return answer
      },
      watch: async (prefix, listener, signal) => {
        if (closing.signal.aborted) throw new TransportError("closed", "this transport was closed")
        if (signal.aborted) return
        const watcher = (key: string, value?: Uint8Array): void => {
          if (key.startsWith(prefix)) listener(value === undefined ? { key } : { key, value })
        }
        watchers.add(watcher)
        const stop = () => watchers.delete(watcher)
        AbortSignal.any([signal, closing.signal]).addEventListener("abort", stop, { once: true })
      },
    },
    close: async () => {
      closing.abort()
      await driver.close()
    },
  }
}
