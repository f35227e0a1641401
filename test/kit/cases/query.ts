/** Lists of jobs: filters, order and pages; and watching jobs. */

import type { Headers } from "../../../runtime/protocol/message.ts"
import type { JobRecord } from "../../../runtime/protocol/record.ts"
import type { RecordQuery } from "../../../runtime/transport/job-store/transport.ts"
import { type Case, delay, lists } from "../case.ts"
import { check, equal, refuses, sameSet } from "../check.ts"
import { type Context, size, sleep } from "../context.ts"
import { recordOf } from "../task.ts"

const needs = [lists]

/** All ids of a query, page by page. */
const listed = async ({ peer, within }: Context, query: RecordQuery): Promise<ReadonlyArray<string>> => {
  const ids: Array<string> = []
  let after: string | undefined
  for (let pages = 0; pages < 500; pages++) {
    const page = await within(
      "a page",
      peer.transport.jobs.list({ ...query, ...(after === undefined ? {} : { after }) }),
    )
    check(page.records.length <= query.limit, `a page of ${query.limit} holds ${page.records.length}`)
    ids.push(...page.records.map(({ id }) => id))
    if (page.next === undefined) return ids
    check(page.records.length > 0, "a page that is not the last must hold something")
    after = page.next
  }
  throw new Error("the pages of a query have no end")
}

interface Ended {
  readonly state?: "succeeded" | "failed"
  readonly task?: string
  readonly headers?: Headers
  readonly dead?: string
}

/** Jobs that ended in this order, the newest last. */
const ended = async (
  { peer, task }: Context,
  queue: string,
  jobs: ReadonlyArray<Ended>,
): Promise<ReadonlyArray<string>> => {
  const ids: Array<string> = []
  for (const { state = "succeeded", dead, ...fields } of jobs) {
    const posting = task({ queue, ...fields })
    await peer.publish(posting)
    const delivery = await peer.one(queue)
    const { fence } = delivery
    await peer.acked(delivery, { record: recordOf(posting, state, dead === undefined ? { fence } : { fence, dead }) })
    ids.push(posting.id)
    // The order by time can only be seen where times differ.
    await sleep(3)
  }
  return ids
}

export const queryCases: ReadonlyArray<Case> = [
  {
    group: "query",
    name: "each filter finds what it says, and several find what all of them say",
    smoke: true,
    needs,
    async run(context) {
      const { peer, fresh, task } = context
      const [queue, other, root, parent, group] = [fresh("queue"), fresh("q"), fresh("r"), fresh("p"), fresh("g")]
      const [plain, failed, dead, named, routed, rooted, child, grouped] = await ended(context, queue, [
        {},
        { state: "failed" },
        { state: "failed", dead: "undecodable" },
        { task: "text.count" },
        // The same method, named in two headers.
        { task: "text", headers: { meth: "count" } },
        { headers: { root_id: root } },
        { headers: { root_id: root, parent_id: parent } },
        { headers: { group } },
      ])
      const waiting = task({ queue: other, headers: { root_id: root } })
      await peer.publish(waiting)
      const expectations: ReadonlyArray<readonly [Omit<RecordQuery, "limit">, ReadonlyArray<string | undefined>]> = [
        [{}, [plain, failed, dead, named, routed, rooted, child, grouped, waiting.id]],
        [{ states: ["failed"] }, [failed, dead]],
        [{ states: ["queued"] }, [waiting.id]],
        [{ states: ["queued", "failed"] }, [failed, dead, waiting.id]],
        [{ states: ["cancelled"] }, []],
        [{ task: "text.count" }, [named, routed]],
        [{ task: "text" }, [routed]],
        [{ task: "count" }, []],
        [{ queue: other }, [waiting.id]],
        [{ queue }, [plain, failed, dead, named, routed, rooted, child, grouped]],
        [{ rootId: root }, [rooted, child, waiting.id]],
        [{ parentId: parent }, [child]],
        [{ group }, [grouped]],
        [{ dead: true }, [dead]],
        [{ rootId: root, queue }, [rooted, child]],
        [{ rootId: root, states: ["queued"] }, [waiting.id]],
        [{ task: "text.count", states: ["failed"] }, []],
      ]
      for (const [filter, expected] of expectations) {
        const found = await listed(context, { ...filter, limit: 100 })
        sameSet(found, expected.map(String), `ids found by ${JSON.stringify(filter)}`)
      }
    },
  },
  {
    group: "query",
    name: "the newest come first",
    needs,
    async run(context) {
      const queue = context.fresh("queue")
      const ids = await ended(context, queue, [{}, {}, {}, { state: "failed" }, {}])
      equal(await listed(context, { queue, limit: 100 }), [...ids].reverse(), "order")
    },
  },
  {
    group: "query",
    name: "pages leave nothing out and repeat nothing",
    needs,
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
      const [inHand] = await peer.all(queue, 1)
      check(inHand !== undefined, "a delivery must come")
      const all = [...done, ...waiting.map(({ id }) => id)]
      for (const limit of [size(4, 50), size(5, 70), Math.min(all.length, 1_000), 1_000]) {
        sameSet(await listed(context, { queue, limit }), all, `ids on pages of ${limit}`)
      }
      const failed = done.filter((_, at) => at % 3 === 0)
      sameSet(await listed(context, { queue, states: ["failed"], limit: 2 }), failed, "ids on filtered pages")
    },
  },
  {
    group: "query",
    name: "a job that is due later is listed as scheduled",
    needs: [lists, delay],
    async run(context) {
      const { peer, fresh, task } = context
      const queue = fresh("queue")
      const [later, now] = [task({ queue, due: Date.now() + 60_000 }), task({ queue })]
      await peer.publish(later, now)
      equal(await listed(context, { queue, states: ["scheduled"], limit: 10 }), [later.id], "scheduled")
      equal(await listed(context, { queue, states: ["queued"], limit: 10 }), [now.id], "queued")
    },
  },
  {
    group: "query",
    name: "a cursor that cannot be read is invalid",
    needs,
    async run({ peer, fresh, task, within }) {
      await peer.publish(task({ queue: fresh("queue") }))
      for (const after of ["no cursor", "💥", "' OR 1=1 --", "W10=", "x".repeat(5_000)]) {
        await within(
          "a refusal",
          refuses(peer.transport.jobs.list({ limit: 10, after }), "invalid", `cursor "${after.slice(0, 20)}"`),
        )
      }
    },
  },
  {
    group: "watch",
    name: "the end of a job reaches those who watch it, and not those who watch another one",
    needs,
    async run({ peer, fresh, task, elsewhere, until, within }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const [posting, neighbour] = [task({ queue }), task({ queue })]
      const [one, all]: [Array<JobRecord>, Array<JobRecord>] = [[], []]
      const { signal } = new AbortController()
      await within(
        "a watch",
        other.transport.jobs.watch({ id: posting.id }, (record) => one.push(record), signal),
      )
      await within(
        "a watch",
        other.transport.jobs.watch({}, (record) => all.push(record), signal),
      )
      await peer.publish(posting, neighbour)
      for (const each of [posting, neighbour]) await peer.succeed(await peer.one(queue), each, { result: each.id })
      const has = (list: ReadonlyArray<JobRecord>, { id }: { readonly id: string }): boolean =>
        list.some((record) => record.id === id && record.state === "succeeded")
      await until("the end of the job, for who watches it", async () => has(one, posting))
      await until("the end of both jobs, for who watches all", async () => has(all, posting) && has(all, neighbour))
      check(
        one.every(({ id }) => id === posting.id),
        "who watches one job must hear of no other",
      )
      equal(one.findLast(({ state }) => state === "succeeded")?.result, posting.id, "result in what was heard")
    },
  },
  {
    group: "watch",
    name: "claims, reports and changes reach those who watch",
    smoke: true,
    needs,
    async run({ peer, fresh, task, until, within }) {
      const queue = fresh("queue")
      const posting = task({ queue })
      const heard: Array<JobRecord> = []
      const { signal } = new AbortController()
      await within(
        "a watch",
        peer.transport.jobs.watch({ id: posting.id }, (record) => heard.push(record), signal),
      )
      await peer.publish(posting)
      const delivery = await peer.one(queue)
      const { token, fence } = delivery
      await peer.begun(delivery, posting, "worker 1")
      const hears = (what: string, wanted: (record: JobRecord) => boolean): Promise<boolean> =>
        until(`news: ${what}`, async () => heard.some(wanted))
      await hears("the claim", ({ state, worker }) => state === "started" && worker === "worker 1")
      const progress = { fraction: 0.5, at: Date.now() }
      const record = recordOf(posting, "started", { fence, progress, claims: 1 })
      await within("a report", peer.transport.jobs.report([{ token, record }]))
      await hears("the report", (each) => each.progress?.fraction === 0.5)
      const stored = await peer.succeed(delivery, posting)
      const { revision: expect } = await peer.found(posting.id)
      await peer.decided({ id: posting.id, expect, record: { ...stored, meta: { note: "changed" } } })
      await hears("the change", ({ meta }) => meta?.["note"] === "changed")
    },
  },
  {
    group: "watch",
    name: "a watch ends with its signal",
    needs,
    async run({ peer, fresh, task, until, within }) {
      const queue = fresh("queue")
      const [ended, live]: [Array<JobRecord>, Array<JobRecord>] = [[], []]
      const stop = new AbortController()
      await within(
        "a watch",
        peer.transport.jobs.watch({}, (record) => ended.push(record), stop.signal),
      )
      await within(
        "a watch",
        peer.transport.jobs.watch({}, (record) => live.push(record), new AbortController().signal),
      )
      stop.abort()
      await sleep(50)
      const before = ended.length
      const posting = task({ queue })
      await peer.publish(posting)
      await peer.succeed(await peer.one(queue), posting)
      await until("news, for who still watches", async () => live.some(({ state }) => state === "succeeded"))
      equal(ended.length, before, "records heard after the signal")
    },
  },
]
