/** Closing a connection: it is quick and final, and other connections keep working. */
import type { Case } from "../case.ts"
import { check, isTransportError, refuses } from "../check.ts"
import { recordOf } from "../task.ts"

const group = "close"

export const closeCases: ReadonlyArray<Case> = [
  {
    group,
    name: "closing ends a take that waits",
    async run({ another, fresh, within, slack, timed }) {
      const peer = await another()
      const { transport } = peer
      const queue = fresh("queue")
      // What a first take of a queue has to prepare is there then.
      await peer.take(queue)
      const request = { queues: [queue], max: 1, wait: 30_000 }
      const waiting = transport.jobs.take(request, new AbortController().signal).then(
        (deliveries) => deliveries.length,
        (error: unknown) => (isTransportError(error) ? error.reason : String(error)),
      )
      await within("an answer that comes after the take was sent", transport.store.get(["a"]))
      await within("close", transport.close())
      const took = timed()
      const outcome = await within("the end of a take, after close", waiting, 2 * slack)
      took(0, slack, "milliseconds from close to the end of a take")
      check(outcome === 0 || outcome === "closed", `the take must end with nothing, or as closed; it was ${outcome}`)
    },
  },
  {
    group,
    name: "afterwards every call fails as closed",
    async run({ another, task, fresh, within }) {
      const { transport } = await another()
      await within("close", transport.close())
      const { jobs, store, broadcast } = transport
      const { signal } = new AbortController()
      const posting = task({ queue: fresh("queue") })
      const { id, run, retries } = posting
      const record = recordOf(posting, "succeeded", { fence: "1" })
      const calls: ReadonlyArray<readonly [string, (() => Promise<unknown>) | undefined]> = [
        ["publish", () => jobs.publish([posting])],
        ["take", () => jobs.take({ queues: [posting.queue], max: 1, wait: 0 }, signal)],
        ["claim", () => jobs.claim([{ token: "1", id, run, retries, worker: "w", at: 0, posting }])],
        ["report", () => jobs.report([{ token: "1", record }])],
        ["settle", () => jobs.settle([{ token: "1", then: { kind: "ack" } }])],
        ["extend", () => jobs.extend(["1"])],
        ["stats", jobs.queues && (() => Promise.resolve(jobs.queues?.()))],
        ["waiting", jobs.waiting && (() => Promise.resolve(jobs.waiting?.({ queue: posting.queue }, 1)))],
        ["find", () => jobs.find(id)],
        ["change", () => jobs.decide([{ id, expect: "", record }])],
        ["stranded", jobs.orphans && (async () => jobs.orphans?.(0, 1))],
        ["query", () => jobs.list({ limit: 1 })],
        ["watch", () => jobs.watch({}, () => undefined, signal)],
        ["get", () => store.get(["a"])],
        ["write", () => store.write([{ key: "a", value: new Uint8Array(1) }])],
        ["list", () => store.list({ prefix: "", limit: 1 })],
        ["watch of the store", store.watch && (async () => store.watch?.("", () => undefined, signal))],
        ["now", () => store.now()],
        ["send", broadcast && (() => broadcast.send("a", new Uint8Array(1)))],
        ["listen", broadcast && (() => broadcast.listen("a", () => undefined, signal))],
      ]
      for (const [name, call] of calls) {
        if (call !== undefined)
          await within(`${name} after close`, refuses(ended(call), "closed", `${name} after close`))
      }
    },
  },
]

/** Calls a function that may throw, and rejects in that case. */
const ended = async (call: () => Promise<unknown>): Promise<unknown> => call()
