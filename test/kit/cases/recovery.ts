/** Stored tasks and records survive closed connections, restarts and cuts, and watches go on after them. */

import type { JobPosting } from "../../../runtime/protocol/message.ts"
import type { JobDelivery } from "../../../runtime/transport/job-store/transport.ts"
import { type Case, durable, hook } from "../case.ts"
import { check, equal, isTransportError, sameSet } from "../check.ts"
import { type Context, size, sleep } from "../context.ts"
import type { Peer } from "../peer.ts"
import { idOf } from "../task.ts"

const group = "recovery"

/** Publishes tasks one by one, and repeats each until it is stored. */
const persist = async ({ peer, until }: Context, postings: ReadonlyArray<JobPosting>): Promise<void> => {
  for (const posting of postings) {
    await until(
      "a receipt, trying again while the transport is away",
      async () => {
        try {
          const [receipt] = await peer.transport.jobs.publish([posting])
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
const published = async ({ transport }: Peer, posting: JobPosting): Promise<boolean> => {
  const receipts = await transport.jobs.publish([posting]).catch(() => [])
  return receipts[0] !== undefined && receipts[0].status !== "failed"
}

/** Takes once. Resolves with no deliveries while the transport is away. */
const pullThrough = async ({ transport }: Peer, queue: string, wait = 500): Promise<ReadonlyArray<JobDelivery>> => {
  try {
    return await transport.jobs.take({ queues: [queue], max: 1, wait }, new AbortController().signal)
  } catch (error) {
    check(isTransportError(error) && error.retryable, `only what may be tried again may fail: ${String(error)}`)
    return []
  }
}

/**
 * Takes and acks tasks until each of the ids has been delivered. Their time begins when the disturbance is over: how long
 * a server takes to start again says nothing about its tasks.
 */
const consume = async (
  { peer, harness }: Context,
  queue: string,
  ids: ReadonlyArray<string>,
  disturbance: Promise<unknown>,
): Promise<void> => {
  const left = new Set(ids)
  let end = Number.POSITIVE_INFINITY
  const begin = () => {
    end = Date.now() + (harness.slow ? 40_000 : 25_000)
  }
  disturbance.then(begin, begin)
  const { signal } = new AbortController()
  /** Deliveries whose ack got no answer. It may have succeeded, so that the task is not delivered again. */
  const held = new Map<string, string>()
  while (left.size > 0) {
    check(Date.now() < end, `all tasks must come, ${left.size} of ${ids.length} did not`)
    try {
      for (const [id, token] of held) {
        const [ended] = await peer.transport.jobs.settle([{ token, then: { kind: "ack" } }])
        if (ended?.status !== "ended" && ended?.status !== "gone") continue
        left.delete(id)
        held.delete(id)
      }
      const deliveries = await peer.transport.jobs.take({ queues: [queue], max: 5, wait: 300 }, signal)
      for (const delivery of deliveries) held.set(idOf(delivery), delivery.token)
    } catch (error) {
      check(isTransportError(error) && error.retryable, `only what may be tried again may fail: ${String(error)}`)
      await sleep(50)
    }
  }
}

/** Disturbs the transport while tasks are published, then while they are consumed. */
const throughDisturbance = async (context: Context, disturb: () => Promise<void>): Promise<void> => {
  const { fresh, tasks, peer, restarted, until, harness } = context
  const queue = fresh("queue")
  const postings = tasks(size(60, 600), { queue })
  const ids = postings.map(({ id }) => id)
  const third = Math.floor(postings.length / 3)
  await persist(context, postings.slice(0, third))
  await Promise.all([persist(context, postings.slice(third)), restarted("the restart", disturb)])
  if (harness.capabilities.dedupeWindow > 0 && peer.transport.jobs.waiting !== undefined) {
    // All tasks may have been published before the restart, so the connection need not be back yet.
    const list = peer.transport.jobs.waiting
    const waiting = () =>
      list({ queue }, 10_000).catch((error: unknown) => {
        check(isTransportError(error) && error.retryable, `a list may fail as unavailable only: ${String(error)}`)
        return undefined
      })
    sameSet(await until("a list of what waits", waiting, 30_000), ids, "what waits after publishing through a restart")
  }
  const disturbance = restarted("the restart", disturb)
  await Promise.all([consume(context, queue, ids, disturbance), disturbance])
}

export const recoveryCases: ReadonlyArray<Case> = [
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
    smoke: true,
    needs: [hook("kill"), durable],
    lease: 2_000,
    exclusive: true,
    timeout: 90_000,
    run: (context) => throughDisturbance(context, async () => context.harness.kill?.()),
  },
  {
    group,
    name: "a take that waits through a cut, or the next one, brings what comes afterwards",
    smoke: true,
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
      const early = await within("the end of the take that waited", waiting, 20_000)
      const found = early[0] ?? (await until("the task", async () => (await pullThrough(peer, queue))[0], 20_000))
      equal(idOf(found), posting.id, "what comes")
    },
  },
]
