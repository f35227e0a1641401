/** The rules about which delivery may write a record, one scenario each, over a driver that is stopped between two steps. */
import { describe, expect, test } from "vitest"
import type { JobPosting } from "../../../../../runtime/protocol/message.ts"
import { type JobRecord, recordOfPosting, step } from "../../../../../runtime/protocol/record.ts"
import type { Commit, Driver } from "../../../../../runtime/transport/driver.ts"
import type { JobDelivery, Settlement } from "../../../../../runtime/transport/job-store/transport.ts"
import { withJobs } from "../../../../../runtime/transport/job-store/with-jobs.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import { isHeld, LeastBoard, type LeastOptions, leastDriver, type Step } from "../../../../kit/driver/least-driver.ts"
import { posting } from "./samples.ts"

const never = new AbortController().signal

const recordAs = (
  state: JobRecord["state"],
  of: JobPosting,
  { fence }: Pick<JobDelivery, "fence">,
  rest = {},
): JobRecord => {
  const waiting = recordOfPosting(of, Date.now())
  if (waiting._tag === "Failure") throw new Error(waiting.failure.message)
  const ended = state === "queued" || state === "started" ? {} : { endedAt: Date.now(), keepMs: 60_000 }
  return { ...step(waiting.success, { at: Date.now(), state }), ...ended, ...rest, fence }
}

/** A board, one of its workers, and what was asked of the driver. */
const open = (options: LeastOptions = {}) => {
  const board = new LeastBoard()
  /** Decides what becomes of a step; none: nothing happens to it. */
  const hook: { step?: Step } = {}
  const asked: Array<string> = []
  const counted = (driver: Driver): Driver => ({
    ...driver,
    publish: (postings) => {
      asked.push("publish")
      return driver.publish(postings)
    },
    take: (request, signal) => {
      asked.push("take")
      return driver.take(request, signal)
    },
    read: (ids, what) => {
      asked.push(`read ${what}`)
      return driver.read(ids, what)
    },
    extend: (tokens) => {
      asked.push("extend")
      return driver.extend(tokens)
    },
    commit: (commits) => {
      asked.push(`commit ${commits.map(stepsOf).join(" ")}`)
      return driver.commit(commits)
    },
  })
  const step: Step = (name, commit) => hook.step?.(name, commit)
  const driver = leastDriver(board, { lease: 60_000 }, { step, ...options })
  const worker = () => withJobs(counted(driver), { lease: 60_000 })
  const transport = worker()
  const { jobs } = transport
  return {
    board,
    hook,
    asked,
    jobs,
    worker,
    take: async () => {
      const [delivery] = await jobs.take({ queues: ["q"], max: 1, wait: 0 }, never)
      if (delivery === undefined) throw new Error("a delivery must come")
      return delivery
    },
    claim: async ({ token }: JobDelivery, of = posting(), rest: { readonly unlessSuspect?: boolean } = {}) => {
      const { id, run, retries } = of
      const [claimed] = await jobs.claim([
        { token, id, run, retries, worker: "w", at: Date.now(), posting: of, ...rest },
      ])
      return claimed
    },
    settle: async (settlement: Settlement) => (await jobs.settle([settlement]))[0]?.status,
    find: async (id = "j") => {
      const found = await jobs.find(id)
      if (found === undefined) throw new Error(`a record of ${id} must be there`)
      return found
    },
    /** Every lease ends. */
    lapse: () => {
      for (const task of board.tasks) if (isHeld(task)) task.until = 0
    },
    keys: () => [...board.tasks].map((task) => task.posting.key),
  }
}

/** What a commit holds: record, postings, task. */
const stepsOf = ({ record, post = [], task }: Commit): string =>
  [record && `record over "${record.expect}"`, ...post.map(({ key }) => key), task?.kind].filter(Boolean).join(" + ")

const callback = posting(1, 0, 0, "callback")
const ack = { kind: "ack" } as const
const lost = (): never => {
  throw new TransportError("unavailable", "the answer was lost", { outcome: "unknown" })
}

const success = (delivery: JobDelivery, followUps: ReadonlyArray<JobPosting> = [callback]): Settlement => ({
  token: delivery.token,
  record: recordAs("succeeded", posting(), delivery, { followUps }),
  followUps,
  then: ack,
})

describe("the hot path", () => {
  test("a first delivery costs a publish, a take and one commit", async () => {
    const { jobs, asked, take, settle } = open()
    await jobs.publish([posting()])
    expect(await settle(success(await take()))).toBe("ended")
    expect(asked).toEqual(["publish", "take", 'commit record over "" + callback/1/0 + ack'])
  })

  test("of a batch of first deliveries, too", async () => {
    const { jobs, asked } = open()
    const postings = ["a", "b", "c"].map((id) => posting(1, 0, 0, id))
    await jobs.publish(postings)
    const deliveries = await jobs.take({ queues: ["q"], max: 3, wait: 0 }, never)
    const settled = await jobs.settle(
      postings.flatMap((job, at) => {
        const delivery = deliveries[at]
        return delivery ? [{ token: delivery.token, record: recordAs("succeeded", job, delivery), then: ack }] : []
      }),
    )
    expect(settled.map(({ status }) => status)).toEqual(["ended", "ended", "ended"])
    expect(asked.map((each) => each.split(" ")[0])).toEqual(["publish", "take", "commit"])
  })

  test("a first delivery that is claimed before it runs costs one commit more, and no look", async () => {
    const { jobs, asked, take, claim, settle } = open()
    await jobs.publish([posting()])
    const delivery = await take()
    asked.length = 0
    expect((await claim(delivery))?.status).toBe("started")
    expect(await settle(success(delivery, []))).toBe("ended")
    expect(asked).toEqual(['commit record over ""', expect.stringMatching(/record over "\d+" \+ ack/)])
  })

  test("a later delivery costs one look and one claim more", async () => {
    const { jobs, asked, take, claim, settle, lapse } = open()
    await jobs.publish([posting()])
    await take()
    lapse()
    const second = await take()
    asked.length = 0
    expect((await claim(second))?.status).toBe("started")
    expect(await settle(success(second, []))).toBe("ended")
    expect(asked).toEqual(["read record", 'commit record over ""', expect.stringMatching(/record over "\d+" \+ ack/)])
  })
})

describe("claim", () => {
  test("a worker that was frozen before its claim does not take the job from the one that runs it", async () => {
    const { jobs, take, claim, find, lapse } = open()
    await jobs.publish([posting()])
    const frozen = await take()
    lapse()
    const living = await take()
    expect((await claim(living))?.status).toBe("started")
    expect((await claim(frozen))?.status).toBe("superseded")
    expect((await find()).record.fence).toBe(living.fence)
  })

  test("a claim whose answer was lost counts once", async () => {
    const { jobs, take, claim, find, hook } = open()
    await jobs.publish([posting()])
    const delivery = await take()
    hook.step = lost
    expect((await claim(delivery))?.status).toBe("failed")
    delete hook.step
    expect((await claim(delivery))?.status).toBe("started")
    expect((await find()).record.claims).toBe(1)
  })

  test("a second copy of a task, whose publish key was forgotten, does not run beside the first, nor after it", async () => {
    const { board, jobs, take, claim, settle, lapse } = open()
    const retry = posting(1, 1)
    await jobs.publish([retry])
    const first = await take()
    expect((await claim(first, retry))?.status).toBe("started")
    for (const task of [...board.tasks])
      board.tasks.add({ ...task, sequence: task.sequence + 1, token: "", until: 0, deliveries: 0 })
    expect((await claim(await take(), retry))?.status).toBe("superseded")
    const record = recordAs("succeeded", retry, first)
    expect(await settle({ token: first.token, record, then: ack })).toBe("ended")
    lapse()
    expect((await claim(await take(), retry))?.status).toBe("finished")
  })

  test("a job that was begun and never ended is suspect: asked so, it is not claimed, and nothing is written", async () => {
    const { jobs, take, claim, find, lapse, asked } = open()
    await jobs.publish([posting()])
    expect((await claim(await take(), posting(), { unlessSuspect: true }))?.status).toBe("started")
    lapse()
    const second = await take()
    asked.length = 0
    expect((await claim(second, posting(), { unlessSuspect: true }))?.status).toBe("suspect")
    expect(asked).toEqual(["read record"])
    expect(await claim(second)).toMatchObject({ status: "started", record: { state: "started" } })
    expect((await find()).record.claims).toBe(2)
  })

  test("a job that was only noted to run is suspect, and its first attempt counts", async () => {
    const { jobs, take, claim, find, lapse } = open()
    await jobs.publish([posting()])
    const first = await take()
    await jobs.report([{ token: first.token, record: recordAs("started", posting(), first) }])
    lapse()
    const second = await take()
    expect((await claim(second, posting(), { unlessSuspect: true }))?.status).toBe("suspect")
    expect((await claim(second))?.status).toBe("started")
    expect((await find()).record.claims).toBe(2)
  })

  test("a job that was handed back is no suspect", async () => {
    const { jobs, take, claim, settle } = open()
    await jobs.publish([posting()])
    const first = await take()
    await claim(first)
    const release = { kind: "hand-back", delay: 0 } as const
    const back = { token: first.token, record: recordAs("queued", posting(), first), then: release }
    expect(await settle(back)).toBe("ended")
    expect((await claim(await take(), posting(), { unlessSuspect: true }))?.status).toBe("started")
  })
})

describe("settle", () => {
  test.each(["record", "post", "task"])(
    "an outcome whose answer was lost after its %s is whole, and posts once",
    async (at) => {
      const { jobs, take, settle, find, hook, keys } = open({ dedupeWindow: 0 })
      await jobs.publish([posting()])
      const delivery = await take()
      hook.step = (name) => (name === at ? lost() : undefined)
      expect(await settle(success(delivery))).toBe("failed")
      delete hook.step
      expect(["ended", "gone"]).toContain(await settle(success(delivery)))
      expect((await find()).record.state).toBe("succeeded")
      expect(keys()).toEqual(["callback/1/0"])
    },
  )

  test("a follow-up that ran before the outcome is settled again is not posted again", async () => {
    const { jobs, take, settle, hook, keys } = open({ dedupeWindow: 0 })
    await jobs.publish([posting()])
    const delivery = await take()
    hook.step = (name) => (name === "post" ? lost() : undefined)
    expect(await settle(success(delivery))).toBe("failed")
    delete hook.step
    const child = await take()
    await settle({ token: child.token, record: recordAs("succeeded", callback, child), then: ack })
    expect(await settle(success(delivery))).toBe("ended")
    expect(keys()).toEqual([])
  })
})

describe("a conflict of an outcome", () => {
  test("with a record that was only posted again is none", async () => {
    const { jobs, take, claim, settle, find, board } = open()
    const next = posting(2)
    const waiting = { ...recordAs("queued", next, { fence: "" }), message: next.message }
    await jobs.decide([{ id: "j", expect: "", record: waiting, post: [next] }])
    const delivery = await take()
    expect((await claim(delivery, next))?.status).toBe("started")
    // Maintenance found no task, and stores the same record once more.
    const { revision } = await find()
    const again = { ...waiting, state: "queued" as const }
    expect(await jobs.decide([{ id: "j", expect: revision, record: again }])).toEqual([{ status: "decided" }])
    const record = recordAs("succeeded", next, delivery)
    expect(await settle({ token: delivery.token, record, then: ack })).toBe("ended")
    expect((await find()).record.state).toBe("succeeded")
    expect(board.tasks.size).toBe(0)
  })

  test("with a later attempt is refused: nothing is stored, posted or taken off", async () => {
    const { jobs, take, claim, settle, find, lapse, keys } = open()
    await jobs.publish([posting()])
    const overtaken = await take()
    lapse()
    const living = await take()
    await claim(living)
    expect(await settle(success(overtaken))).toBe("superseded")
    expect((await find()).record).toMatchObject({ state: "started", fence: living.fence })
    expect(keys()).toEqual(["j/1/0"])
    expect(await settle(success(living, []))).toBe("ended")
  })

  test("with a cancellation is refused", async () => {
    const { jobs, take, settle, find, keys } = open()
    await jobs.publish([posting()])
    const delivery = await take()
    const { revision } = await find()
    const record = recordAs("cancelled", posting(), { fence: "" })
    await jobs.decide([{ id: "j", expect: revision, record, withdraw: true }])
    expect(await settle(success(delivery))).toBe("superseded")
    expect((await find()).record.state).toBe("cancelled")
    expect(keys()).not.toContain("callback/1/0")
  })

  test("a worker that was frozen may finish while nobody has begun", async () => {
    const { jobs, take, settle, lapse } = open()
    await jobs.publish([posting()])
    const delivery = await take()
    lapse()
    expect(await settle(success(delivery))).toBe("ended")
  })
})

describe("a task under the id of another job", () => {
  test("runs at most once, where that job was not known, and touches nothing", async () => {
    const { jobs, take, claim, settle, find, lapse } = open()
    await jobs.publish([posting()])
    const delivery = await take()
    expect(delivery.fresh).toBe(true)
    const there = { ...recordAs("queued", posting(), { fence: "" }), task: "image", name: "image" }
    expect(await jobs.decide([{ id: "j", expect: "", record: there }])).toEqual([{ status: "decided" }])
    expect(await settle(success(delivery))).toBe("superseded")
    lapse()
    const again = await take()
    expect(await claim(again)).toMatchObject({ status: "taken", by: { id: "j", task: "image" } })
    const dead = { ...recordAs("failed", posting(), again), id: "dead", dead: "duplicate-id" }
    expect(await settle({ token: again.token, record: dead, then: ack })).toBe("ended")
    expect((await find("dead")).record).toMatchObject({ state: "failed", dead: "duplicate-id" })
    expect((await find()).record).toMatchObject({ state: "queued", task: "image" })
  })
})

describe("over", () => {
  test("the next delivery posts what its worker could not post any more, then acks", async () => {
    const { jobs, take, claim, settle, hook, lapse, keys } = open()
    await jobs.publish([posting()])
    hook.step = lost
    expect(await settle(success(await take()))).toBe("failed")
    delete hook.step
    lapse()
    const second = await take()
    const claimed = await claim(second)
    expect(claimed).toMatchObject({ status: "finished", record: { followUps: [{ id: "callback" }] } })
    expect(await settle({ token: second.token, followUps: [callback], then: ack })).toBe("ended")
    expect(keys()).toEqual(["callback/1/0"])
  })

  test("and nothing that ran already", async () => {
    const { jobs, take, claim, settle, hook, lapse, keys } = open({ dedupeWindow: 0 })
    await jobs.publish([posting()])
    hook.step = (name) => (name === "post" ? lost() : undefined)
    expect(await settle(success(await take()))).toBe("failed")
    delete hook.step
    const child = await take()
    await settle({ token: child.token, record: recordAs("succeeded", callback, child), then: ack })
    lapse()
    const second = await take()
    expect((await claim(second))?.status).toBe("finished")
    expect(await settle({ token: second.token, followUps: [callback], then: ack })).toBe("ended")
    expect(keys()).toEqual([])
  })

  test("a retry that its worker could not post is posted, though its job has a record", async () => {
    const { jobs, take, claim, settle, hook, lapse, keys } = open()
    const retry = posting(1, 1)
    await jobs.publish([posting()])
    const first = await take()
    const record = recordAs("queued", retry, first, { successor: "j/1/1", followUps: [retry] })
    hook.step = lost
    expect(await settle({ token: first.token, record, followUps: [retry], then: ack })).toBe("failed")
    delete hook.step
    lapse()
    const again = await take()
    expect((await claim(again))?.status).toBe("finished")
    expect(await settle({ token: again.token, followUps: [retry], then: ack })).toBe("ended")
    expect(keys()).toEqual(["j/1/1"])
  })
})

describe("a decision from outside", () => {
  const rerun = (record: JobRecord): JobRecord => {
    const { endedAt: _ended, keepMs: _keep, ...kept } = record
    return { ...step(kept, { run: 2, at: Date.now(), state: "queued" }), fence: "" }
  }

  test("posts what the record that it replaces still owes, before its own posting", async () => {
    const { jobs, take, settle, find, hook, keys } = open()
    await jobs.publish([posting()])
    hook.step = lost
    expect(await settle(success(await take()))).toBe("failed")
    delete hook.step
    const { record, revision } = await find()
    const change = { id: "j", expect: revision, record: rerun(record), post: [posting(2)] }
    expect(await jobs.decide([change])).toEqual([{ status: "decided" }])
    expect(keys()).toEqual(["j/1/0", "callback/1/0", "j/2/0"])
  })

  test("that withdraws the older task stands, also when the retry that was owed is posted after it", async () => {
    const { jobs, take, claim, settle, find, hook, lapse, keys } = open()
    const retry = posting(1, 1)
    await jobs.publish([posting()])
    const first = await take()
    const queued = recordAs("queued", retry, first, { successor: "j/1/1", followUps: [retry] })
    hook.step = (name) => (name === "record" ? lost() : undefined)
    expect(await settle({ token: first.token, record: queued, followUps: [retry], then: ack })).toBe("failed")
    delete hook.step
    lapse()
    const { record, revision } = await find()
    const cancelled = { ...step(record, { at: Date.now(), state: "cancelled" }), fence: "", endedAt: Date.now() }
    expect(await jobs.decide([{ id: "j", expect: revision, record: cancelled, withdraw: true }])).toEqual([
      { status: "decided" },
    ])
    expect(keys().filter((key) => key === "j/1/0")).toEqual([])
    await jobs.publish([retry])
    expect((await claim(await take(), retry))?.status).toBe("finished")
    expect((await find()).record.state).toBe("cancelled")
  })

  test("whose posting fails may have happened, whatever the posting says", async () => {
    const { jobs, hook, find } = open()
    const next = posting(2)
    const change = { id: "j", expect: "", record: recordAs("queued", next, { fence: "" }), post: [next] }
    hook.step = (name) => {
      if (name === "record") throw new TransportError("unavailable", "no room")
    }
    expect(await jobs.decide([change])).toMatchObject([
      { status: "failed", error: { reason: "unavailable", outcome: "unknown" } },
    ])
    expect((await find()).record.run).toBe(2)
  })

  test("posts nothing that is known", async () => {
    const { jobs, take, settle, find, keys } = open({ dedupeWindow: 0 })
    await jobs.publish([posting()])
    await settle(success(await take()))
    const child = await take()
    await settle({ token: child.token, record: recordAs("succeeded", callback, child), then: ack })
    const { record, revision } = await find()
    await jobs.decide([{ id: "j", expect: revision, record: rerun(record), post: [posting(2)] }])
    expect(keys()).toEqual(["j/2/0"])
  })

  test("leaves to its caller what only the new record says", async () => {
    const { jobs, find, keys } = open()
    await jobs.publish([posting()])
    const { revision } = await find()
    const record = recordAs("failed", posting(), { fence: "" }, { followUps: [callback] })
    await jobs.decide([{ id: "j", expect: revision, record }])
    const now = await find()
    expect(keys()).toEqual(["j/1/0"])
    await jobs.decide([{ id: "j", expect: now.revision, record: rerun(now.record) }])
    expect(keys()).toEqual(["j/1/0", "callback/1/0"])
  })

  test("drops what is owed once nobody could tell any more that it ran", async () => {
    const { jobs, take, find, settle, board, keys } = open({ dedupeWindow: 0 })
    await jobs.publish([posting()])
    const delivery = await take()
    const old = { ...success(delivery), record: recordAs("succeeded", posting(), delivery, longAgo) }
    await settle(old)
    board.tasks.clear()
    const { record, revision } = await find()
    await jobs.decide([{ id: "j", expect: revision, record: rerun(record), post: [posting(2)] }])
    expect(keys()).toEqual(["j/2/0"])
    expect((await find()).record.followUps).toBeUndefined()
  })

  const longAgo = { endedAt: Date.now() - 7_200_000, keepMs: -1, followUps: [callback] }
})

describe("orphans", () => {
  test("a posting that was lost between two steps is found, and the same change posts it", async () => {
    const { jobs, hook, find, keys } = open()
    const next = posting(2)
    const record = { ...recordAs("queued", next, { fence: "" }), message: next.message }
    hook.step = lost
    await jobs.decide([{ id: "j", expect: "", record, post: [next] }])
    delete hook.step
    expect(keys()).toEqual([])
    expect(await jobs.orphans?.(Date.now(), 10)).toEqual(["j"])
    const found = await find()
    await jobs.decide([{ id: "j", expect: found.revision, record: found.record, post: [next] }])
    expect(keys()).toEqual(["j/2/0"])
    expect(await jobs.orphans?.(Date.now(), 10)).toEqual([])
  })
})

describe("orphans of a job that still owed something", () => {
  test("are posted after what it owed", async () => {
    const { jobs, take, settle, hook, find, board, keys } = open()
    await jobs.publish([posting()])
    hook.step = lost
    expect(await settle(success(await take()))).toBe("failed")
    board.tasks.clear()
    const ended = await find()
    const { endedAt: _ended, keepMs: _keep, ...kept } = ended.record
    const next = posting(2)
    const again = { ...step(kept, { run: 2, at: 0, state: "queued" }), fence: "", message: next.message }
    await jobs.decide([{ id: "j", expect: ended.revision, record: again, post: [next] }])
    delete hook.step
    expect(keys()).toEqual([])
    const { record, revision } = await find()
    await jobs.decide([{ id: "j", expect: revision, record, post: [next] }])
    expect(keys()).toEqual(["callback/1/0", "j/2/0"])
  })
})

describe("another thread", () => {
  test("ends an attempt that it only knows the token of", async () => {
    const { jobs, take, claim, find, lapse, worker } = open()
    await jobs.publish([posting()])
    await take()
    lapse()
    const { token, ...delivery } = await take()
    await claim({ token, ...delivery })
    const record = recordAs("failed", posting(), delivery)
    expect(await worker().jobs.settle([{ token, record, then: ack }])).toEqual([{ status: "ended" }])
    expect((await find()).record.state).toBe("failed")
  })
})
