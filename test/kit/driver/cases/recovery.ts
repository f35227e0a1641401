/** Stored data survives closed connections, restarts and sudden ends of the broker. */
import type { Committed } from "../../../../runtime/transport/driver.ts"
import { delay, durable, hook } from "../../case.ts"
import { check, equal, sameSet } from "../../check.ts"
import type { DriverCase } from "../case.ts"
import { type DriverContext, patience, size, sleep, taken } from "../context.ts"
import { answering, away, mending, persist, takeThrough } from "../outage.ts"
import { idOf, idsOf, recordOf, text } from "../task.ts"
import { withoutUncaught } from "../uncaught.ts"

const group = "recovery"

/**
 * Takes and acks tasks until each of the ids has been delivered. Their time begins when the disturbance is over: how long
 * a server takes to start again says nothing about its tasks.
 */
const consume = async (
  { peer }: DriverContext,
  queue: string,
  ids: ReadonlyArray<string>,
  disturbance: Promise<unknown>,
): Promise<void> => {
  const left = new Set(ids)
  let end = Number.POSITIVE_INFINITY
  const begin = () => {
    end = Date.now() + patience(25_000)
  }
  disturbance.then(begin, begin)
  /** Deliveries whose ack got no answer. It may have succeeded, so that the task is not delivered again. */
  const held = new Map<string, string>()
  while (left.size > 0) {
    check(Date.now() < end, `all tasks must come, ${left.size} of ${ids.length} did not`)
    const deliveries = await takeThrough(peer, queue, 300)
    if (deliveries.length === 0) await sleep(10)
    for (const delivery of deliveries) held.set(idOf(delivery), delivery.token)
    for (const [id, token] of held) {
      try {
        const [answer] = await peer.driver.commit([{ id, task: { kind: "ack", token } }])
        if (answer?.status !== "committed") continue
        left.delete(id)
        held.delete(id)
      } catch (error) {
        away(error, "a commit")
      }
    }
  }
}

/** Disturbs the broker while tasks are published, then while they are consumed. */
const throughDisturbance = (context: DriverContext, disturb: () => Promise<void>): Promise<void> =>
  withoutUncaught(async () => {
    const { fresh, tasks, peer, restarted, until, harness } = context
    const queue = fresh("queue")
    const postings = tasks(size(60, 600), { queue })
    const ids = postings.map(({ id }) => id)
    const third = Math.floor(postings.length / 3)
    await persist(context, postings.slice(0, third))
    await Promise.all([persist(context, postings.slice(third)), restarted("the restart", disturb)])
    if (harness.capabilities.dedupeWindow > 0 && peer.driver.waiting !== undefined) {
      // All tasks may have been published before the restart, so the connection need not be back yet.
      const waiting = () => peer.waiting({ queue }, 10_000).catch((error: unknown) => void away(error, "a list"))
      const found = await until("a list of what waits", waiting, mending(context))
      sameSet(found, ids, "what waits after publishing through a restart")
    }
    const disturbance = restarted("the restart", disturb)
    await Promise.all([consume(context, queue, ids, disturbance), disturbance])
  })

export const recoveryCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "what was stored outlives all connections",
    needs: [durable],
    async run({ peer, fresh, task, harness, another }) {
      const queue = fresh("queue")
      const due = harness.capabilities.delay > 0 ? { due: Date.now() + 900 } : {}
      const [waiting, later, ended] = [task({ queue }), task({ queue, ...due }), task({ queue })]
      await peer.publish(waiting, later)
      const revision = await peer.put(ended.id, recordOf(ended, "succeeded", { says: "kept" }))
      await peer.written({ key: "a", value: Uint8Array.of(7) })
      await peer.close()
      const next = await another()
      const known = await next.known(ended.id)
      equal([text(known.record), known.revision], ["kept", revision], "record and revision")
      check((await next.known(waiting.id)).task !== undefined, "the task that waits must be known")
      equal((await next.get("a"))?.value, Uint8Array.of(7), "value in the store")
      sameSet(idsOf(await next.all(queue, 2, 8_000)), [waiting.id, later.id], "what comes")
    },
  },
  {
    group,
    name: "a task that was in hand when all connections ended comes again, with a higher fence",
    needs: [durable],
    lease: 1_000,
    async run({ peer, fresh, task, another }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      const first = await peer.one(queue)
      await peer.close()
      const second = await (await another()).one(queue, 8_000)
      check(second.fence > first.fence, `fences must rise: ${first.fence}, then ${second.fence}`)
      equal(second.first, false, "what a second delivery says to be first")
    },
  },
  {
    group,
    name: "a restart while publishing and while consuming loses nothing that was stored",
    needs: [hook("restart"), durable],
    lease: 2_000,
    exclusive: true,
    timeout: patience(90_000),
    run: (context) => throughDisturbance(context, async () => context.harness.restart?.()),
  },
  {
    group,
    name: "a sudden end while publishing and while consuming loses nothing that was stored",
    needs: [hook("kill"), durable],
    lease: 2_000,
    exclusive: true,
    timeout: patience(90_000),
    run: (context) => throughDisturbance(context, async () => context.harness.kill?.()),
  },
  {
    group,
    name: "a task that is in hand during a sudden end comes again, with a higher fence",
    needs: [hook("kill"), durable],
    lease: 2_000,
    exclusive: true,
    async run({ peer, fresh, task, harness, restarted, until }) {
      const { queue, posting, delivery: first } = await taken(peer, task({ queue: fresh("queue") }))
      await restarted("the sudden end", async () => harness.kill?.())
      const second = await until("the task, afterwards", async () => (await takeThrough(peer, queue))[0], 20_000)
      equal(idOf(second), posting.id, "what comes")
      check(second.fence > first.fence, `fences must rise: ${first.fence}, then ${second.fence}`)
      equal(second.first, false, "what a second delivery says to be first")
    },
  },
  {
    group,
    name: "what was removed from the store stays away after a sudden end",
    needs: [hook("kill"), durable],
    exclusive: true,
    async run({ peer, harness, until, restarted, another }) {
      const value = Uint8Array.of(7)
      const keys = ["a", "b", "c"] as const
      for (const key of [...keys, "kept"]) await peer.written({ key, value })
      await peer.written({ key: "b", value: Uint8Array.of(8) })
      await peer.written({ key: "a", value: null }, { key: "b", value: null })
      await peer.written({ key: "c", value: null })
      await restarted("the sudden end", async () => harness.kill?.())
      const next = await until("a connection after the end", () => another().catch(() => undefined), 15_000)
      const left = await next.store.list({ prefix: "", limit: 10 })
      equal(
        left.map(({ key }) => key),
        ["kept"],
        "keys in the store",
      )
      for (const key of keys) equal(await next.get(key), undefined, `what is read of ${key}`)
      await next.written({ key: "a", value, expect: "" })
      equal((await next.get("a"))?.value, value, "a key that was created again")
    },
  },
  {
    group,
    name: "what a commit answers about a sudden end is true, and what it cannot say is done as a whole or can be repeated",
    needs: [hook("kill"), durable],
    exclusive: true,
    timeout: patience(90_000),
    async run(context) {
      const { peer, fresh, tasks, task, harness, within, restarted, until } = context
      const [queue, next] = [fresh("queue"), fresh("next")]
      const postings = tasks(size(80, 400), { queue })
      await peer.publish(...postings)
      const deliveries = await peer.all(queue, postings.length)
      const commits = deliveries.map((delivery) => {
        const follower = task({ queue: next })
        const { token } = delivery
        const record = recordOf(follower, "succeeded")
        return { id: idOf(delivery), record, post: [follower], task: { kind: "ack", token } } as const
      })
      const answers = new Map<string, Committed>()
      const thrown = new Set<string>()
      const left = [...commits]
      const committing = async (lane: number): Promise<void> => {
        // The calls are not in step with each other, so that the cut comes in the middle of some.
        await sleep(2 * lane)
        for (let commit = left.shift(); commit !== undefined; commit = left.shift()) {
          const committed = peer.driver.commit([commit]).catch((error: unknown) => {
            away(error, "a commit")
            thrown.add(commit.id)
            return []
          })
          const [answer] = await within("a commit", committed, 30_000)
          if (answer !== undefined) answers.set(commit.id, answer)
          await sleep(1)
        }
      }
      const kill = () => sleep(15).then(() => harness.kill?.())
      const lanes = Array.from({ length: 8 }, (_, lane) => committing(lane))
      await Promise.all([...lanes, restarted("the sudden end", kill)])
      await answering(context)
      const { atomic } = harness.capabilities
      for (const { id, post } of commits) {
        const answer = answers.get(id)
        const [own, follower] = await until("what is known of a job", () =>
          peer.reads([id, post[0].id]).catch(() => undefined),
        )
        const done = { record: own?.record !== undefined, post: follower !== undefined, task: own?.task === undefined }
        const all = { record: true, post: true, task: true }
        if (answer?.status === "committed") {
          // Ending the task is the last step. A broker that does not confirm it may lose it, and delivers the task
          // again.
          equal(
            [own?.revision, atomic ? done : { ...done, task: true }],
            [answer.revision, all],
            "revision, and what was done, of a commit that was answered",
          )
        } else if (answer?.status === "failed" && answer.revision !== undefined) {
          check(!atomic, "an atomic commit that failed has stored no record, and answers no revision")
          equal(
            [own?.revision, done.record],
            [answer.revision, true],
            "revision and record of a commit that failed later",
          )
        } else {
          check(answer?.status !== "conflict", "a commit that expects what is stored must be no conflict")
          const none = answer?.status === "failed" && answer.error.outcome === "none"
          check(!(none && done.record), `a commit that failed with the outcome none must have stored nothing: ${id}`)
        }
        check(!thrown.has(id) || !done.record, "a commit that throws has tried nothing; this one stored its record")
        check(done.record || !done.post, "a posting must not be there before its record")
        check(done.post || !done.task, "a task must not be ended before the posting is there")
        if (atomic)
          equal(done, done.record ? all : { record: false, post: false, task: false }, "what an atomic commit did")
      }
    },
  },
  {
    group,
    name: "a scheduled task, a record and a stored value outlive a restart",
    needs: [hook("restart"), durable, delay],
    exclusive: true,
    async run({ peer, fresh, task, harness, until, restarted, another }) {
      const queue = fresh("queue")
      const [later, ended] = [task({ queue, due: Date.now() + 4_000 }), task({ queue })]
      await peer.publish(later)
      await peer.put(ended.id, recordOf(ended, "succeeded", { says: "kept" }))
      await peer.written({ key: "a", value: Uint8Array.of(7) })
      await restarted("the restart", async () => harness.restart?.())
      const next = await until("a connection after the restart", () => another().catch(() => undefined), 15_000)
      equal(await next.says(ended.id), "kept", "record")
      equal((await next.get("a"))?.value, Uint8Array.of(7), "value in the store")
      equal(idOf(await next.one(queue, 15_000)), later.id, "what comes in time")
    },
  },
]
