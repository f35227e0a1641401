/** Closing a connection: it is quick and final, and other connections keep working. */
import { check, equal, isTransportError, refuses } from "../../check.ts"
import { type DriverCase, offered, waits } from "../case.ts"
import { idOf, idsOf, recordOf } from "../task.ts"

const group = "close"

/** Calls a function that may throw, and rejects in that case. */
const settled = async (call: () => Promise<unknown>): Promise<unknown> => call()

export const closeCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "closing twice is closing once",
    async run({ another, within }) {
      const { driver } = await another()
      await within("two closes at the same time", Promise.all([driver.close(), driver.close()]))
      await within("a close of what is closed", driver.close())
    },
  },
  {
    group,
    name: "closing ends a take that waits",
    needs: [waits],
    async run({ another, fresh, within, slack, timed }) {
      const peer = await another()
      const { driver } = peer
      const queue = fresh("queue")
      // What a first take of a queue has to prepare is there then.
      await peer.ask(queue)
      const request = { queues: [queue], max: 1, wait: 30_000, rotate: false }
      const waiting = driver.take(request, new AbortController().signal).then(
        ({ deliveries }) => deliveries.length,
        (error: unknown) => (isTransportError(error) ? error.reason : String(error)),
      )
      await within("an answer that comes after the take was sent", driver.store.get(["a"]))
      await within("close", driver.close())
      const took = timed()
      const outcome = await within("the end of a take, after close", waiting, 2 * slack)
      took(0, slack, "milliseconds from close to the end of a take")
      check(outcome === 0 || outcome === "closed", `the take must end with nothing, or as closed; it was ${outcome}`)
    },
  },
  {
    group,
    name: "afterwards every call fails as closed, and nothing is heard any more",
    async run({ peer, another, task, fresh, within }) {
      const { driver } = await another()
      const heard: Array<unknown> = []
      const { signal } = new AbortController()
      await within(
        "listening",
        driver.listen({ kind: "jobs" }, (news) => heard.push(news), signal),
      )
      await within("close", driver.close())
      heard.length = 0
      const { store, broadcast } = driver
      const posting = task({ queue: fresh("queue") })
      await peer.publish(posting)
      const { id } = posting
      const request = { queues: [posting.queue], max: 1, wait: 0, rotate: false }
      const calls: ReadonlyArray<readonly [string, (() => Promise<unknown>) | undefined]> = [
        ["publish", () => driver.publish([posting])],
        ["take", () => driver.take(request, signal)],
        ["extend", () => driver.extend(["1"])],
        ["read", () => driver.read([id], "all")],
        ["commit", () => driver.commit([{ id, record: recordOf(posting, "failed") }])],
        ["listen", () => driver.listen({ kind: "jobs" }, () => undefined, signal)],
        ["orphans", driver.orphans && (async () => driver.orphans?.(0, 1))],
        ["query", driver.query && (async () => driver.query?.({ limit: 1 }))],
        ["count", driver.count && (async () => driver.count?.("failed"))],
        ["queues", driver.queues && (async () => driver.queues?.())],
        ["waiting", driver.waiting && (async () => driver.waiting?.({ expiredBy: 0 }, 1))],
        ["get", () => store.get(["a"])],
        ["write", () => store.write([{ key: "a", value: new Uint8Array(1) }])],
        ["list", () => store.list({ prefix: "", limit: 1 })],
        ["now", () => store.now()],
        ["watch", store.watch && (async () => store.watch?.("", () => undefined, signal))],
        ["send", broadcast && (() => broadcast.send("a", new Uint8Array(1)))],
        ["listen to announcements", broadcast && (() => broadcast.listen("a", () => undefined, signal))],
      ]
      for (const [name, call] of calls) {
        if (call !== undefined) await within(name, refuses(settled(call), "closed", `${name} after close`))
      }
      equal((await peer.known(id)).record, undefined, "record that was not stored after close")
      equal(heard.length, 0, "news heard after close")
    },
  },
  {
    group,
    name: "closing does not wait for what is in hand, which comes to others after its lease",
    lease: 1_000,
    async run({ peer, another, fresh, task, lease, slack, harness, timed }) {
      const queue = fresh("queue")
      const posting = task({ queue })
      await peer.publish(posting)
      const other = await another()
      await other.one(queue)
      const took = timed()
      await other.close()
      took(0, slack, "milliseconds to close")
      const late = lease + harness.capabilities.leaseResolution + slack
      const came = timed()
      equal(idOf(await peer.one(queue, 2 * late)), posting.id, "what comes to another connection")
      came(0, late, "milliseconds until it comes to another connection")
    },
  },
  {
    group,
    name: "closing one connection leaves the others alone",
    async run({ peer, another, fresh, task }) {
      const queue = fresh("queue")
      const other = await another()
      const waiting = peer.take(queue, { wait: 8_000 })
      // The promise may reject before it is awaited.
      waiting.catch(() => undefined)
      await other.close()
      const posting = task({ queue })
      await peer.publish(posting)
      equal(idsOf(await waiting), [posting.id], "what comes")
    },
  },
  {
    group,
    name: "closing a driver of a client that the application holds leaves the client open",
    needs: [offered("adopt")],
    async run({ peer, harness, options, fresh, task, within }) {
      const adopted = await within("a driver of a client", harness.adopt?.(options()) ?? Promise.resolve(undefined))
      check(adopted !== undefined, "adopt must bring a driver")
      const { driver, isOpen } = adopted
      const posting = task({ queue: fresh("queue") })
      const [receipt] = await within("a receipt", driver.publish([posting]))
      equal(receipt?.status, "stored", "receipt of a driver of a client")
      equal(idOf(await peer.one(posting.queue)), posting.id, "what comes on another connection")
      await within("close", driver.close())
      await within("a refusal", refuses(driver.read([posting.id], "all"), "closed", "read after close"))
      check(await within("a look at the client", isOpen()), "the client must still be open")
    },
  },
]
