/** Lists of jobs, depths of queues, and what waits in them. */

import type { Headers } from "../../../../runtime/protocol/message.ts"
import type { Posting } from "../../../../runtime/transport/driver.ts"
import type { Index } from "../../../../runtime/transport/known.ts"
import type { Query, QueueDepth } from "../../../../runtime/transport/optional.ts"
import { delay } from "../../case.ts"
import { between, check, equal, refuses } from "../../check.ts"
import { type DriverCase, ownTokens, part } from "../case.ts"
import { type DriverContext, patience, size, sleep, taken } from "../context.ts"
import { idsOf, recordOf, text } from "../task.ts"

type State = "succeeded" | "failed"

/** All jobs that a query finds, page by page. A driver may return more than was asked for. */
const listed = async ({ peer }: DriverContext, query: Query): Promise<ReadonlyArray<string>> => {
  const ids: Array<string> = []
  let after: string | undefined
  for (let pages = 0; pages < 500; pages++) {
    const page = await peer.query({ ...query, ...(after === undefined ? {} : { after }) })
    check(page.jobs.length <= query.limit, `a page of ${query.limit} holds ${page.jobs.length}`)
    ids.push(...page.jobs.map(({ id }) => id))
    if (page.next === undefined) return ids
    check(page.jobs.length > 0 || page.partial === true, "a page that is not the last must hold something")
    after = page.next
  }
  throw new Error("the pages of a query have no end")
}

/** Fails unless each of these ids was found once. */
const holds = (found: ReadonlyArray<string>, expected: ReadonlyArray<string | undefined>, what: string): void => {
  const missing = expected.filter((id) => id !== undefined && !found.includes(id))
  equal(missing, [], `missing among ${what}`)
  equal(found.length, new Set(found).size, `different ids among ${what}`)
}

interface Ended {
  readonly state?: State
  readonly task?: string
  readonly headers?: Headers
  readonly dead?: true
}

/** Stores records of jobs that ended one after the other, the newest last. */
const ended = async (
  { peer, task }: DriverContext,
  queue: string,
  jobs: ReadonlyArray<Ended>,
): Promise<ReadonlyArray<string>> => {
  const ids: Array<string> = []
  for (const { state = "succeeded", dead, ...fields } of jobs) {
    const posting = task({ queue, ...fields })
    const record = recordOf(posting, state)
    await peer.put(posting.id, dead ? { ...record, index: { ...record.index, dead } } : record)
    ids.push(posting.id)
    // The order by time can only be seen where times differ.
    await sleep(3)
  }
  return ids
}

const query = [part("query")]
const browse = [part("browse")]

export const browseCases: ReadonlyArray<DriverCase> = [
  {
    group: "query",
    name: "each filter finds all that it says, and several find all that fits all of them",
    needs: query,
    async run(context) {
      const { peer, fresh, task } = context
      const [queue, other, root, parent, group] = [fresh("queue"), fresh("q"), fresh("r"), fresh("p"), fresh("g")]
      const start = Date.now()
      const [plain, failed, dead, named, routed, rooted, child, grouped] = await ended(context, queue, [
        {},
        { state: "failed" },
        { state: "failed", dead: true },
        { task: "text.count" },
        // The same method, named in two headers.
        { task: "text", headers: { meth: "count" } },
        { headers: { root_id: root } },
        { headers: { root_id: root, parent_id: parent } },
        { headers: { group } },
      ])
      const waiting = task({ queue: other, id: `${fresh("id")}-ABcd12EF`, headers: { root_id: root } })
      await peer.publish(waiting)
      const all = [plain, failed, dead, named, routed, rooted, child, grouped, waiting.id]
      const expectations: ReadonlyArray<readonly [Omit<Query, "limit">, ReadonlyArray<string | undefined>]> = [
        [{}, all],
        [{ states: ["failed"] }, [failed, dead]],
        [{ states: ["queued"] }, [waiting.id]],
        [{ states: ["queued", "failed"] }, [failed, dead, waiting.id]],
        [{ task: "text.count" }, [named, routed]],
        [{ task: "text" }, [named, routed]],
        [{ queue: other }, [waiting.id]],
        [{ queue }, all.slice(0, -1)],
        [{ root }, [rooted, child, waiting.id]],
        [{ parent }, [child]],
        [{ group }, [grouped]],
        [{ dead: true }, [dead]],
        [{ idEnds: "abcd12ef" }, [waiting.id]],
        [{ idEnds: plain?.slice(-8).toLowerCase() ?? "" }, [plain]],
        [{ root, queue }, [rooted, child]],
        [{ root, states: ["queued"] }, [waiting.id]],
        [{ since: start, until: Date.now() + 60_000 }, all],
      ]
      for (const [filter, expected] of expectations) {
        const what = `ids found by ${JSON.stringify(filter)}`
        holds(await listed(context, { ...filter, limit: 100 }), expected, what)
      }
    },
  },
  {
    group: "query",
    name: "a found job has its record and revision, or its task, and hidden records are not found",
    needs: query,
    async run(context) {
      const { peer, fresh, task } = context
      const queue = fresh("queue")
      const [waiting, stored, both, hidden] = [task({ queue }), task({ queue }), task({ queue }), task({ queue })]
      await peer.publish(waiting, both)
      const revision = await peer.put(stored.id, recordOf(stored, "failed", { says: "stored" }))
      await peer.put(both.id, recordOf(both, "started", { says: "both" }))
      const record = recordOf(hidden, "failed")
      await peer.put(hidden.id, { ...record, index: { ...record.index, hidden: true } })
      const { jobs } = await peer.query({ queue, limit: 100 })
      holds(
        jobs.map(({ id }) => id),
        [waiting.id, stored.id, both.id],
        "ids found",
      )
      const job = (id: string) => jobs.find((each) => each.id === id)
      equal([text(job(stored.id)?.record), job(stored.id)?.revision], ["stored", revision], "record and revision")
      equal(text(job(both.id)?.record), "both", "record of a job that has a task as well")
      check(job(waiting.id)?.task !== undefined, "a job without record must come with its task")
      check(job(hidden.id) === undefined, "a hidden record must not be found")
    },
  },
  {
    group: "query",
    name: "a job is found as it was stored last",
    needs: query,
    async run(context) {
      const { peer, fresh, task } = context
      const { queue, posting, delivery } = await taken(peer, task({ queue: fresh("queue") }))
      const { id } = posting
      const expect = await peer.put(id, recordOf(posting, "started"))
      await peer.end(delivery, { record: recordOf(posting, "failed", { expect, says: "last" }) })
      for (const filter of [{}, { queue }, { states: ["failed"] as const }]) {
        const found = (await peer.query({ ...filter, limit: 100 })).jobs.filter((each) => each.id === id)
        equal(
          found.map((each) => text(each.record)),
          ["last"],
          `what is found by ${JSON.stringify(filter)}`,
        )
      }
    },
  },
  {
    group: "query",
    name: "the newest come first",
    needs: query,
    async run(context) {
      const queue = context.fresh("queue")
      const ids = await ended(context, queue, [{}, {}, {}, { state: "failed" }, {}])
      const found = await listed(context, { queue, limit: 100 })
      equal(
        found.filter((id) => ids.includes(id)),
        [...ids].reverse(),
        "order",
      )
    },
  },
  {
    group: "query",
    name: "pages leave nothing out and repeat nothing",
    needs: query,
    async run(context) {
      const { peer, fresh, tasks } = context
      const queue = fresh("queue")
      const done = await ended(
        context,
        queue,
        Array.from({ length: size(13, 150) }, (_, at) => ({ state: at % 3 === 0 ? "failed" : "succeeded" }) as const),
      )
      const waiting = tasks(size(12, 1_500), { queue })
      await peer.publish(...waiting)
      await peer.one(queue)
      const all = [...done, ...waiting.map(({ id }) => id)]
      for (const limit of [size(4, 50), size(5, 70), Math.min(all.length, 1_000), 1_000]) {
        holds(await listed(context, { queue, limit }), all, `ids on pages of ${limit}`)
      }
      const failed = done.filter((_, at) => at % 3 === 0)
      holds(await listed(context, { queue, states: ["failed"], limit: 2 }), failed, "ids on filtered pages")
      holds(await listed(context, { queue, limit: 5, budget: 1 }), all, "ids on pages with a budget of a millisecond")
    },
  },
  {
    group: "query",
    name: "a job that is due later is found as scheduled",
    needs: [part("query"), delay],
    async run(context) {
      const { peer, fresh, task, far } = context
      const queue = fresh("queue")
      const [later, now] = [task({ queue, due: far() }), task({ queue })]
      await peer.publish(later, now)
      holds(await listed(context, { queue, states: ["scheduled"], limit: 10 }), [later.id], "scheduled")
      holds(await listed(context, { queue, states: ["queued"], limit: 10 }), [now.id], "queued")
    },
  },
  {
    group: "query",
    name: "since includes its moment",
    needs: query,
    async run(context) {
      const { peer, fresh, task } = context
      const queue = fresh("queue")
      const posting = task({ queue })
      const at = Date.now() - 60_000
      await peer.put(posting.id, recordOf({ index: { ...posting.index, at } }, "succeeded"))
      holds(await listed(context, { limit: 9, queue, since: at, until: at + 1 }), [posting.id], "jobs of that moment")
    },
  },
  {
    group: "query",
    name: "a record whose time is over is not found, nor a task of a job whose record is hidden",
    needs: query,
    async run(context) {
      const { peer, fresh, task, until } = context
      const queue = fresh("queue")
      const [brief, forgotten] = [task({ queue }), task({ queue })]
      const hidden = { ...forgotten.index, state: "succeeded", hidden: true } as const
      await peer.put(brief.id, recordOf(brief, "succeeded", { keep: 1_000 }))
      await peer.put(forgotten.id, { ...recordOf(forgotten, "succeeded"), index: hidden })
      await peer.publish(forgotten)
      await until("the end of a record", async () => (await peer.says(brief.id)) === undefined, 10_000)
      equal(await listed(context, { limit: 9, queue }), [], "jobs of the queue")
    },
  },
  {
    group: "query",
    name: "a cursor that cannot be read is invalid",
    needs: query,
    async run({ peer, fresh, task, within }) {
      await peer.publish(task({ queue: fresh("queue") }))
      for (const after of ["no cursor", "💥", "' OR 1=1 --", "W10=", "x".repeat(5_000)]) {
        const refused = refuses(peer.query({ limit: 10, after }), "invalid", `cursor "${after.slice(0, 20)}"`)
        await within("a refusal", refused)
      }
    },
  },
  {
    group: "count",
    name: "jobs that ended are counted by state and queue, exactly or not at all, without hidden ones",
    needs: [part("count")],
    async run(context) {
      const { peer, fresh, task } = context
      const [queue, other] = [fresh("queue"), fresh("other")]
      const [first] = await ended(context, queue, [{ state: "failed" }, { state: "failed", dead: true }, {}])
      await ended(context, other, [{ state: "failed" }])
      const hidden = task({ queue })
      const record = recordOf(hidden, "failed")
      await peer.put(hidden.id, { ...record, index: { ...record.index, hidden: true } })
      await peer.publish(task({ queue }))
      const counted = async (state: Index["state"], of?: string) => (await peer.count(state, of)) ?? "unknown"
      const isOneOf = async (state: Index["state"], of: string | undefined, count: number) => {
        const found = await counted(state, of)
        check(
          found === count || found === "unknown",
          `${state} in ${of ?? "all queues"}: ${count} expected, ${found} told`,
        )
      }
      equal(await counted("failed", queue), 2, "failed jobs of a queue")
      equal(await counted("failed", other), 1, "failed jobs of another queue")
      equal(await counted("failed"), 3, "failed jobs of all queues")
      equal(await counted("cancelled", queue), 0, "cancelled jobs")
      equal(await counted("failed", fresh("unused")), 0, "failed jobs of a queue that was not used")
      await isOneOf("succeeded", queue, 1)
      await isOneOf("succeeded", undefined, 1)
      await isOneOf("deferred", queue, 0)
      const again = task({ queue, id: first ?? "" })
      const { revision } = await peer.known(again.id)
      await peer.put(again.id, recordOf(again, "succeeded", { expect: revision }))
      // A broker may count by what it removes after it has answered.
      await context.until("one failed job less", async () => (await counted("failed", queue)) === 1)
      const brief = task({ queue })
      await peer.put(brief.id, recordOf(brief, "failed", { keep: 60_000 }))
      equal(await counted("failed", queue), 2, "failed jobs, of which one is kept for a time")
      const { revision: ending } = await peer.known(brief.id)
      await peer.put(brief.id, recordOf(brief, "started", { expect: ending }))
      await context.until("none that runs again", async () => (await counted("failed", queue)) === 1)
    },
  },
  {
    group: "depth",
    name: "what is ready, scheduled and in hand and the oldest age are told per queue",
    needs: browse,
    async run({ peer, fresh, tasks, far, harness, until, tolerance }) {
      const [queue, other] = [fresh("queue"), fresh("other")]
      const before = Date.now()
      await peer.publish(...tasks(5, { queue }))
      const after = Date.now()
      await peer.publish(...tasks(2, { queue: other }))
      const scheduled = harness.capabilities.delay > 0 ? 3 : 0
      if (scheduled > 0) await peer.publish(...tasks(scheduled, { queue, due: far() }))
      await peer.all(queue, 2)
      const counts = (each: QueueDepth | undefined): string =>
        each === undefined ? "absent" : `${each.ready} ready, ${each.scheduled} scheduled, ${each.held} in hand`
      // A broker may count a task a moment after it is stored.
      await until(
        "the counts of a queue",
        async () => counts(await peer.depth(queue)) === `3 ready, ${scheduled} scheduled, 2 in hand`,
      )
      equal(counts(await peer.depth(other)), "2 ready, 0 scheduled, 0 in hand", "the other queue")
      const oldest = (await peer.depth(queue))?.oldest
      check(oldest !== undefined, "a queue with ready tasks must tell when the oldest was submitted")
      between(oldest, before - tolerance, after + tolerance, "when the oldest ready task was submitted")
    },
  },
  {
    group: "depth",
    name: "the oldest is the job that was submitted first, however late its task was posted, and only among those that are ready",
    needs: browse,
    async run({ peer, fresh, task, far, harness, until }) {
      const queue = fresh("queue")
      const submitted = (hoursAgo: number, due?: number): Posting => {
        const posting = task({ queue, ...(due === undefined ? {} : { due }) })
        return { ...posting, index: { ...posting.index, at: Date.now() - hoursAgo * 3_600_000 } }
      }
      const [held, retried] = [submitted(5), submitted(1)]
      await peer.publish(held)
      await peer.one(queue)
      await peer.publish(retried)
      if (harness.capabilities.delay > 0) await peer.publish(submitted(3, far()))
      await until("one that is ready", async () => (await peer.depth(queue))?.ready === 1)
      equal((await peer.depth(queue))?.oldest, retried.index.at, "when the oldest ready task was submitted")
      await peer.end(await peer.one(queue))
      await until("none that is ready", async () => ((await peer.depth(queue))?.ready ?? 0) === 0)
      equal((await peer.depth(queue))?.oldest, undefined, "the oldest where none is ready")
    },
  },
  {
    group: "depth",
    name: "a queue whose only task is scheduled is told",
    needs: [part("browse"), delay],
    async run({ peer, fresh, task, far, until }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue, due: far() }))
      await until("a scheduled task", async () => (await peer.depth(queue))?.scheduled === 1)
      equal((await peer.depth(queue))?.ready, 0, "ready tasks")
    },
  },
  {
    group: "depth",
    name: "a task whose lease is over is ready again",
    // JetStream counts such a task as in hand until it is delivered again.
    needs: [part("browse"), ownTokens],
    lease: 1_000,
    async run({ peer, fresh, task, until }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      await peer.one(queue)
      await until("a task in hand", async () => (await peer.depth(queue))?.held === 1)
      await until("a ready task", async () => {
        const { ready, held } = (await peer.depth(queue)) ?? {}
        return ready === 1 && held === 0
      })
    },
  },
  {
    group: "depth",
    name: "a queue that was emptied holds nothing",
    needs: browse,
    async run({ peer, fresh, tasks, until }) {
      const queue = fresh("queue")
      await peer.publish(...tasks(3, { queue }))
      for (const delivery of await peer.all(queue, 3)) await peer.end(delivery)
      await until("an empty queue", async () => {
        const found = await peer.depth(queue)
        return found === undefined || found.ready + found.scheduled + found.held === 0
      })
    },
  },
  {
    group: "depth",
    name: "what waits in a queue is listed as it would come, scheduled ones last, and not what is in hand",
    needs: [part("browse"), delay],
    async run({ peer, fresh, task, tasks, far, harness }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue, priority: 9 }))
      await peer.one(queue)
      const [low, scheduled, high] = [
        tasks(3, { queue, priority: 0 }),
        task({ queue, priority: 9, due: far() }),
        tasks(2, { queue, priority: 9 }),
      ]
      await peer.publish(...low, scheduled, task({ queue: fresh("other") }))
      await peer.publish(...high)
      const ordered = harness.capabilities.bands > 1 ? [...high, ...low] : [...low, ...high]
      equal(
        await peer.waiting({ queue }),
        [...ordered, scheduled].map(({ id }) => id),
        "waiting",
      )
      equal((await peer.waiting({ queue }, 2)).length, 2, "number of those, at most two")
      equal(await peer.waiting({ queue: fresh("nobody's") }), [], "waiting in a queue that nobody used")
    },
  },
  {
    group: "expiry",
    name: "a task past its expires is still there, and still comes",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const posting = task({ queue, expires: Date.now() + 300 })
      const past = task({ queue, expires: Date.now() - 60_000 })
      await peer.publish(posting, past)
      await sleep(1_500)
      equal((await peer.known(posting.id)).task?.expires, posting.expires, "expires of the task")
      equal(idsOf(await peer.all(queue, 2)), [posting.id, past.id], "what comes")
    },
  },
  {
    group: "expiry",
    name: "of a task past its expires that is in hand, or was, it is not said that none ever had it",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const posting = task({ queue, expires: Date.now() - 60_000 })
      await peer.publish(posting)
      const taskOf = async () => {
        const found = (await peer.known(posting.id)).task
        check(found !== undefined, "the task must be known")
        return found
      }
      equal((await taskOf()).held ?? false, false, "whether it is in hand before it was taken")
      const delivery = await peer.one(queue)
      const mayRun = ({ held, deliveries }: Awaited<ReturnType<typeof taskOf>>) => held === true || deliveries !== 0
      check(mayRun(await taskOf()), "it may run while it is in hand")
      await peer.release(delivery)
      check(mayRun(await taskOf()), "it may run when it was given back: a worker may have lost its lease")
    },
  },
  {
    group: "expiry",
    name: "what waits past its expires is listed, oldest first, until it is withdrawn, and not what is in hand",
    needs: browse,
    async run({ peer, fresh, task, far, harness, until }) {
      const queue = fresh("queue")
      const now = Date.now()
      await peer.publish(task({ queue, expires: now - 9_000 }))
      await peer.one(queue)
      const due = harness.capabilities.delay > 0 ? { due: far() } : {}
      const scheduled = task({ queue, expires: now - 500, ...due })
      const [later, earlier] = [task({ queue, expires: now - 1_000 }), task({ queue, expires: now - 5_000 })]
      await peer.publish(scheduled, later, task({ queue }), task({ queue, expires: now + 60_000 }), earlier)
      const overdue = (expiredBy: number, max = 10) => peer.waiting({ expiredBy }, max)
      // A broker may list a task a moment after it is stored.
      await until("all that expired", async () => (await overdue(now)).length >= 3, patience(8_000))
      equal(await overdue(now), [earlier.id, later.id, scheduled.id], "past their expires")
      equal(await overdue(now, 1), [earlier.id], "past their expires, at most one")
      equal(await overdue(now - 2_000), [earlier.id], "past their expires two seconds ago")
      const record = recordOf(earlier, "expired")
      await peer.committed({ id: earlier.id, record, task: { kind: "withdraw" } })
      equal(await overdue(now), [later.id, scheduled.id], "past their expires after one was withdrawn")
    },
  },
]
