/** What was stored outlives connections, servers and cuts; and those who listen hear of it. */

import type { Posting } from "../../../runtime/protocol/message.ts"
import type { Delivery } from "../../../runtime/transport/lift/transport.ts"
import { type Case, delay, durable, hook, part, records } from "../case.ts"
import { between, check, equal, isTransportError, refuses, sameSet } from "../check.ts"
import { type Context, size, sleep } from "../context.ts"
import type { Peer } from "../peer.ts"
import { idOf } from "../task.ts"

const group = "recovery"

/** Publishes one by one until each task is stored, whatever happens meanwhile. */
const persist = async ({ peer, until }: Context, postings: ReadonlyArray<Posting>): Promise<void> => {
  for (const posting of postings) {
    await until(
      "a receipt, trying again while the transport is away",
      async () => {
        try {
          const [receipt] = await peer.transport.queue.publish([posting])
          if (receipt?.status !== "failed") return receipt !== undefined
          check(receipt.error.retryable, `only what may be tried again may fail: ${receipt.error.message}`)
        } catch (error) {
          check(isTransportError(error) && error.retryable, `only what may be tried again may fail: ${String(error)}`)
        }
        return false
      },
      20_000,
    )
  }
}

/** Whether a task is stored now; `false` while the transport is away. */
const published = async ({ transport }: Peer, posting: Posting): Promise<boolean> => {
  const receipts = await transport.queue.publish([posting]).catch(() => [])
  return receipts[0] !== undefined && receipts[0].status !== "failed"
}

/** One pull; nothing while the transport is away. */
const pullThrough = async ({ transport }: Peer, queue: string, wait = 500): Promise<ReadonlyArray<Delivery>> => {
  try {
    return await transport.queue.pull({ queues: [queue], max: 1, wait }, new AbortController().signal)
  } catch (error) {
    check(isTransportError(error) && error.retryable, `only what may be tried again may fail: ${String(error)}`)
    return []
  }
}

/** Pulls and acks until each of the ids has come. */
const consume = async ({ peer, harness }: Context, queue: string, ids: ReadonlyArray<string>): Promise<void> => {
  const left = new Set(ids)
  const end = Date.now() + (harness.slow ? 40_000 : 25_000)
  const { signal } = new AbortController()
  /** In hand: an answer that was lost may be that of an ack, after which the task never comes again. */
  const held = new Map<string, string>()
  while (left.size > 0) {
    check(Date.now() < end, `all tasks must come, ${left.size} of ${ids.length} did not`)
    try {
      for (const [id, token] of held) {
        const [settled] = await peer.transport.queue.settle([{ token, then: { kind: "ack" } }])
        if (settled?.status !== "settled" && settled?.status !== "gone") continue
        left.delete(id)
        held.delete(id)
      }
      const deliveries = await peer.transport.queue.pull({ queues: [queue], max: 5, wait: 300 }, signal)
      for (const delivery of deliveries) held.set(idOf(delivery), delivery.token)
    } catch (error) {
      check(isTransportError(error) && error.retryable, `only what may be tried again may fail: ${String(error)}`)
      await sleep(50)
    }
  }
}

/** Disturbs the transport while tasks are published, then while they are consumed. */
const throughDisturbance = async (context: Context, disturb: () => Promise<void>): Promise<void> => {
  const { fresh, tasks, peer, within, harness } = context
  const queue = fresh("queue")
  const postings = tasks(size(60, 600), { queue })
  const ids = postings.map(({ id }) => id)
  const third = Math.floor(postings.length / 3)
  await persist(context, postings.slice(0, third))
  await Promise.all([persist(context, postings.slice(third)), within("the restart", disturb(), 30_000)])
  if (harness.capabilities.dedupeWindow > 0 && peer.transport.queue.waiting !== undefined) {
    const waiting = await peer.transport.queue.waiting(queue, 10_000)
    sameSet(waiting, ids, "what waits after publishing through a restart")
  }
  const consuming = consume(context, queue, ids)
  await Promise.all([consuming, within("the restart", disturb(), 30_000)])
}

export const recoveryCases: ReadonlyArray<Case> = [
  {
    group,
    name: "what was stored outlives all connections",
    needs: [durable],
    async run({ peer, fresh, task, harness, another }) {
      const queue = fresh("queue")
      const [waiting, later] = [
        task({ queue }),
        task({ queue, ...(harness.capabilities.delay ? { due: Date.now() + 900 } : {}) }),
      ]
      const ended = task({ queue: fresh("ended") })
      const full = harness.parts?.includes("records") !== false
      await peer.publish(waiting, later, ended)
      if (full) await peer.succeed(await peer.one(ended.queue), ended)
      await peer.transport.store?.write([{ key: "a", value: Uint8Array.of(7) }])
      await peer.close()
      const next = await another()
      if (full) equal((await next.find(ended.id)).result, "done", "result")
      if (full) equal((await next.find(waiting.id)).state, "queued", "state of what waits")
      if (next.transport.store)
        equal((await next.transport.store.get("a"))?.value, Uint8Array.of(7), "value in the store")
      sameSet((await next.all(queue, 2, 8_000)).map(idOf), [waiting.id, later.id], "what comes")
    },
  },
  {
    group,
    name: "a task that was in hand when all connections ended comes again, with a higher fence",
    needs: [durable],
    lease: 1_000,
    async run({ peer, fresh, task, another, harness }) {
      const queue = fresh("queue")
      const [idle, claimed] = [task({ queue }), task({ queue })]
      await peer.publish(idle, claimed)
      const before = await peer.all(queue, 2)
      const full = harness.parts?.includes("records") !== false
      const second = before.find((each) => idOf(each) === claimed.id)
      if (full && second !== undefined) await peer.claimed(second, claimed)
      await peer.close()
      const next = await another()
      for (const delivery of await next.all(queue, 2, 8_000)) {
        const fence = before.find((each) => idOf(each) === idOf(delivery))?.fence ?? ""
        check(delivery.fence > fence, `fences must rise: ${fence}, then ${delivery.fence}`)
        check(!delivery.fresh, "a second delivery is not fresh")
        if (full && idOf(delivery) === claimed.id) {
          equal((await next.claimed(delivery, claimed))?.claims, 1, "claims before")
        }
      }
    },
  },
  {
    group,
    name: "a restart while publishing and while consuming loses nothing that was stored",
    needs: [hook("restart"), durable],
    lease: 2_000,
    exclusive: true,
    timeout: 90_000,
    run: (context) => throughDisturbance(context, async () => context.harness.restart?.()),
  },
  {
    group,
    name: "a sudden end while publishing and while consuming loses nothing that was stored",
    needs: [hook("kill"), durable],
    lease: 2_000,
    exclusive: true,
    timeout: 90_000,
    run: (context) => throughDisturbance(context, async () => context.harness.kill?.()),
  },
  {
    group,
    name: "a task that is in hand during a sudden end comes again, with a higher fence",
    needs: [hook("kill"), durable],
    lease: 2_000,
    exclusive: true,
    timeout: 60_000,
    async run({ peer, fresh, task, harness, within, until }) {
      const queue = fresh("queue")
      const posting = task({ queue })
      await peer.publish(posting)
      const first = await peer.one(queue)
      await within("the sudden end", harness.kill?.() ?? Promise.resolve(), 30_000)
      const second = await until("the task, afterwards", async () => (await pullThrough(peer, queue))[0], 20_000)
      equal(idOf(second), posting.id, "what comes")
      check(second.fence > first.fence, `fences must rise: ${first.fence}, then ${second.fence}`)
      check(!second.fresh, "a second delivery is not fresh")
    },
  },
  {
    group,
    name: "connecting during a cut fails as unavailable within its timeout",
    needs: [hook("cut")],
    exclusive: true,
    timeout: 60_000,
    async run({ harness, options, within, slack }) {
      await within("the cut", harness.cut?.() ?? Promise.resolve())
      try {
        const connecting = harness.connect({ ...options(), timeout: 1_500 }).then((transport) => transport.close())
        const refused = refuses(connecting, "unavailable", "connecting during a cut")
        await within("the failure of a connection", refused, 1_500 + 2 * slack)
      } finally {
        await within("the healing", harness.heal?.() ?? Promise.resolve())
      }
    },
  },
  {
    group,
    name: "a pull that waits through a cut, or the next one, brings what comes afterwards",
    needs: [hook("cut")],
    exclusive: true,
    timeout: 60_000,
    async run({ peer, fresh, task, harness, within, until }) {
      const queue = fresh("queue")
      const waiting = pullThrough(peer, queue, 12_000)
      await sleep(100)
      await within("the cut", harness.cut?.() ?? Promise.resolve())
      await sleep(300)
      await within("the healing", harness.heal?.() ?? Promise.resolve())
      const posting = task({ queue })
      await until("a receipt after the cut", () => published(peer, posting), 20_000)
      const early = await within("the end of the pull that waited", waiting, 20_000)
      const found = early[0] ?? (await until("the task", async () => (await pullThrough(peer, queue))[0], 20_000))
      equal(idOf(found), posting.id, "what comes")
    },
  },
  {
    group,
    name: "a scheduled task, a record and a stored value outlive a restart",
    needs: [hook("restart"), durable, delay, records, part("store")],
    exclusive: true,
    timeout: 60_000,
    async run({ peer, fresh, task, harness, until, within, another }) {
      const queue = fresh("queue")
      const [later, ended] = [task({ queue, due: Date.now() + 4_000 }), task({ queue })]
      await peer.publish(later, ended)
      await peer.succeed(await peer.one(queue), ended)
      await peer.store.write([{ key: "a", value: Uint8Array.of(7) }])
      await within("the restart", harness.restart?.() ?? Promise.resolve(), 30_000)
      const next = await until("a connection after the restart", () => another().catch(() => undefined), 15_000)
      equal((await next.find(ended.id)).result, "done", "result")
      equal((await next.store.get("a"))?.value, Uint8Array.of(7), "value in the store")
      equal(idOf(await next.one(queue, 15_000)), later.id, "what comes in time")
    },
  },
  {
    group,
    name: "calls during a cut fail as unavailable within a bound, and work again afterwards",
    needs: [hook("cut")],
    exclusive: true,
    timeout: 60_000,
    async run({ peer, fresh, task, harness, within, until }) {
      const queue = fresh("queue")
      const posting = task({ queue })
      await peer.publish(task({ queue }))
      await within("the cut", harness.cut?.() ?? Promise.resolve())
      const start = performance.now()
      try {
        const [receipt] = await within("a receipt during a cut", peer.transport.queue.publish([posting]), 15_000)
        check(receipt?.status === "failed", "publishing during a cut must fail")
        equal(receipt.error.reason, "unavailable", "reason")
      } catch (error) {
        if (!isTransportError(error)) throw error
        equal(error.reason, "unavailable", "reason")
      } finally {
        await within("the healing", harness.heal?.() ?? Promise.resolve())
      }
      between(Math.round(performance.now() - start), 0, 15_000, "milliseconds until the failure")
      await until("a receipt after the cut", () => published(peer, posting), 20_000)
      equal((await peer.all(queue, 2, 15_000)).length, 2, "number of tasks that come")
      await peer.none(queue, "the one that failed is stored once")
    },
  },
  {
    group,
    name: "who listens to the status hears of a cut and of its end, once each",
    needs: [hook("cut")],
    exclusive: true,
    timeout: 60_000,
    async run({ peer, harness, within, until }) {
      const heard: Array<string> = []
      const stopped: Array<string> = []
      peer.transport.onStatus((status) => heard.push(status))
      peer.transport.onStatus((status) => stopped.push(status))()
      await within("the cut", harness.cut?.() ?? Promise.resolve())
      try {
        await until("the status disconnected", async () => heard.includes("disconnected"), 20_000)
      } finally {
        await within("the healing", harness.heal?.() ?? Promise.resolve())
      }
      await until("the status connected", async () => heard.at(-1) === "connected", 20_000)
      equal(heard, ["disconnected", "connected"], "what was heard")
      equal(stopped, [], "what was heard by who had stopped listening")
    },
  },
]
