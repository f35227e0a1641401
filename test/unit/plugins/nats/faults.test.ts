import { Result } from "effect"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { Client } from "../../../../runtime/client/client.ts"
import { connectionOf } from "../../../../runtime/connection/connection.ts"
import { cancelJob } from "../../../../runtime/jobs/commands/cancel.ts"
import { rerunJob, runJobNow } from "../../../../runtime/jobs/commands/rerun.ts"
import { release } from "../../../../runtime/jobs/dependencies/release.ts"
import { postingOf } from "../../../../runtime/protocol/headers.ts"
import { publishKey } from "../../../../runtime/protocol/message.ts"
import type { JobRecord } from "../../../../runtime/protocol/record.ts"
import { republishOrphans } from "../../../../runtime/worker/maintenance/maintenance.ts"
import { idOf, recordOf, retryOf } from "../../../kit/task.ts"
import { type NatsServer, startNats } from "../../../support/servers/nats.ts"
import { never, setup, sleep, stored, task, until } from "./bench.ts"
import { connectNats } from "./connect-nats.ts"

describe("a server that lives", () => {
  let server: NatsServer
  beforeAll(async () => {
    server = await startNats()
  })
  afterAll(() => server?.stop())

  test("a consumer that is deleted while a pull waits is made anew, and what was in hand comes again", async () => {
    await using bench = await setup(server)
    const [held, posting] = [task(), task()]
    await stored(bench, held)
    const before = await bench.one()
    const waiting = bench.transport.jobs.take({ queues: ["q"], max: 2, wait: 10_000 }, never)
    await sleep(100)
    await bench.api(`CONSUMER.DELETE.${bench.names.queueStream}.${bench.names.consumer("q", 4)}`)
    const [again] = await waiting
    expect(again && idOf(again)).toBe(held.id)
    expect(again?.fresh).toBe(false)
    expect((again?.fence ?? "") > before.fence).toBe(true)
    await stored(bench, posting)
    expect(idOf(await bench.one())).toBe(posting.id)
  }, 20_000)

  test("a consumer that is deleted between pulls is made anew", async () => {
    await using bench = await setup(server)
    await stored(bench, task())
    await bench.transport.jobs.take({ queues: ["q"], max: 1, wait: 1_000 }, never)
    for (const band of [10, 7, 4, 0]) {
      await bench.api(`CONSUMER.DELETE.${bench.names.queueStream}.${bench.names.consumer("q", band)}`)
    }
    const posting = task({ priority: 9 })
    await stored(bench, posting)
    expect(idOf(await bench.one())).toBe(posting.id)
  })

  test("an outcome whose consumer is gone is acknowledged all the same", async () => {
    await using bench = await setup(server)
    const posting = task()
    await stored(bench, posting)
    const { token, fence } = await bench.one()
    await bench.api(`CONSUMER.DELETE.${bench.names.queueStream}.${bench.names.consumer("q", 4)}`)
    const record = recordOf(posting, "succeeded", { fence })
    expect(await bench.transport.jobs.settle([{ token, record, then: { kind: "ack" } }])).toEqual([{ status: "ended" }])
    expect(await bench.transport.jobs.take({ queues: ["q"], max: 1, wait: 300 }, never)).toEqual([])
  })

  test("a pull over many queues leaves nothing parked, and hands back what comes too many", async () => {
    await using bench = await setup(server)
    const other = await connectNats(server.url, {
      namespace: bench.names.namespace,
      lease: 30_000,
      name: "other",
      timeout: 5_000,
    })
    const queues = ["a", "b", "c", "d"]
    const waiting = bench.transport.jobs.take({ queues, max: 1, wait: 10_000 }, never)
    await sleep(150)
    const postings = queues.map((queue) => task({ queue }))
    await other.jobs.publish(postings)
    const [first] = await waiting
    const rest = [first].flatMap((delivery) => (delivery === undefined ? [] : [idOf(delivery)]))
    for (const end = Date.now() + 3_000; rest.length < 4 && Date.now() < end; ) {
      rest.push(...(await other.jobs.take({ queues, max: 4, wait: 500 }, never)).map(idOf))
    }
    expect(rest.sort()).toEqual(postings.map(({ id }) => id).sort())
    await other.close()
  })

  test("records end after what they are kept for and their tombstone; claims and runs have no end", async () => {
    await using bench = await setup(server)
    const { transport, names } = bench
    const headersOf = async (id: string): Promise<string> => {
      const answer = await bench.api(`STREAM.MSG.GET.${names.stateStream}`, { last_by_subj: names.record(id) })
      const message = answer["message"]
      const hdrs = typeof message === "object" && message !== null && "hdrs" in message ? String(message.hdrs) : ""
      return Buffer.from(hdrs, "base64").toString()
    }
    const [posting, ever] = [task(), task()]
    await stored(bench, posting)
    const first = await bench.one()
    const claim = { token: first.token, id: posting.id, run: 1, retries: 0, worker: "w", at: Date.now(), posting }
    expect((await transport.jobs.claim([claim]))[0]?.status).toBe("started")
    expect(await headersOf(posting.id)).not.toContain("Nats-TTL")
    const record = recordOf(posting, "succeeded", { fence: first.fence, keepMs: 60_000, endedAt: Date.now() })
    await transport.jobs.settle([{ token: first.token, record, then: { kind: "ack" } }])
    expect(await headersOf(posting.id)).toMatch(/Nats-TTL: 36(60|59)\r\n/)
    await stored(bench, ever)
    const second = await bench.one()
    const kept = recordOf(ever, "failed", { fence: second.fence, keepMs: -1 })
    await transport.jobs.settle([{ token: second.token, record: kept, then: { kind: "ack" } }])
    expect(await headersOf(ever.id)).not.toContain("Nats-TTL")
  })

  test("a job leaves one record and no task, however often it was claimed and tried again", async () => {
    await using bench = await setup(server)
    const { transport, names } = bench
    let posting = task()
    await stored(bench, posting)
    for (let attempt = 0; attempt < 4; attempt++) {
      const { token, fence } = await bench.one()
      const claim = { token, id: posting.id, run: 1, retries: attempt, worker: "w", at: Date.now(), posting }
      expect((await transport.jobs.claim([claim]))[0]?.status).toBe("started")
      const retry = retryOf(posting)
      const last = attempt === 3
      const record: JobRecord = last
        ? recordOf(posting, "failed", { fence })
        : recordOf(posting, "queued", { fence, successor: publishKey(retry), followUps: [retry] })
      const followUps = last ? [] : [retry]
      expect(await transport.jobs.settle([{ token, record, followUps, then: { kind: "ack" } }])).toEqual([
        { status: "ended" },
      ])
      posting = retry
    }
    const messages = async (stream: string): Promise<unknown> => {
      const { state } = await bench.api(`STREAM.INFO.${stream}`)
      return typeof state === "object" && state !== null && "messages" in state ? state.messages : undefined
    }
    // A record of a failed job has an entry in a list; the entries of earlier jobs are gone.
    await until("one record", async () => (await messages(names.stateStream)) === 1)
    await until("one entry at most", async () => Number(await messages(names.indexStream)) <= 1)
    // The acknowledgement is not awaited by the settlement.
    await until("no task", async () => (await messages(names.queueStream)) === 0)
  })

  test("follow-ups that were published are not published again when their keys are forgotten", async () => {
    await using bench = await setup(server, { lease: 1_000 })
    const { transport, names } = bench
    const info = await bench.api(`STREAM.INFO.${names.queueStream}`)
    await bench.api(`STREAM.UPDATE.${names.queueStream}`, { ...Object(info["config"]), duplicate_window: 100_000_000 })
    const posting = task()
    await stored(bench, posting)
    const first = await bench.one()
    const callbacks = [
      task({ queue: "after" }),
      task({ queue: "after" }),
      task({ queue: "after", due: Date.now() + 60_000 }),
    ]
    const [ended] = callbacks
    const record = recordOf(posting, "succeeded", { fence: first.fence, followUps: callbacks })
    // The outcome is stored and the task is not acknowledged, as if the worker had died in between.
    await transport.jobs.settle([
      { token: first.token, record, followUps: callbacks, then: { kind: "hand-back", delay: 0 } },
    ])
    const one = await bench.one("after")
    if (ended === undefined) throw new Error("there are three")
    const done = recordOf(ended, "succeeded", { fence: one.fence })
    await transport.jobs.settle([{ token: one.token, record: done, then: { kind: "ack" } }])
    await sleep(300)
    const second = await bench.one()
    const claim = { token: second.token, id: posting.id, run: 1, retries: 0, worker: "w", at: Date.now(), posting }
    const [claimed] = await transport.jobs.claim([claim])
    expect(claimed?.status).toBe("finished")
    const followUps = claimed?.status === "finished" ? (claimed.record.followUps ?? []) : []
    expect(followUps.length).toBe(3)
    expect(await transport.jobs.settle([{ token: second.token, followUps, then: { kind: "ack" } }])).toEqual([
      { status: "ended" },
    ])
    expect([...((await transport.jobs.waiting?.({ queue: "after" }, 10)) ?? [])].sort()).toEqual(
      callbacks
        .slice(1)
        .map(({ id }) => id)
        .sort(),
    )
  })

  test("a job that is run again while no task can be stored is posted later, once, by maintenance", async () => {
    await using bench = await setup(server)
    const { transport, names } = bench
    const connection = connectionOf(transport)
    const posting = task()
    await stored(bench, posting)
    const first = await bench.one()
    const failed = recordOf(posting, "failed", { fence: first.fence, message: posting.message })
    await transport.jobs.settle([{ token: first.token, record: failed, then: { kind: "ack" } }])

    const info = await bench.api(`STREAM.INFO.${names.queueStream}`)
    const config = Object(info["config"])
    await bench.api(`STREAM.UPDATE.${names.queueStream}`, { ...config, max_msg_size: 16 })
    await expect(rerunJob(connection, posting.id)).rejects.toMatchObject({ outcome: "unknown" })
    await republishOrphans(connection, Date.now() + 1_000).catch(() => undefined)
    await bench.api(`STREAM.UPDATE.${names.queueStream}`, { ...config })

    // The record decides: the task does not run again in the meantime, and nothing is published before the entry is old.
    await expect(rerunJob(connection, posting.id)).rejects.toMatchObject({ code: "job-exists" })
    await republishOrphans(connection, Date.now() - 60_000)
    expect(await transport.jobs.waiting?.({ queue: "q" }, 10)).toEqual([])
    await republishOrphans(connection, Date.now() + 1_000)
    await republishOrphans(connection, Date.now() + 1_000)
    expect(await transport.jobs.waiting?.({ queue: "q" }, 10)).toEqual([posting.id])

    const second = await bench.one()
    expect(second.fresh).toBe(false)
    const { id, message } = (await connection.jobs.find(posting.id))?.record ?? {}
    if (id === undefined || message === undefined) throw new Error("the record holds its task")
    const claim = { token: second.token, id, run: 2, retries: 0, worker: "w", at: Date.now() }
    const [claimed] = await transport.jobs.claim([{ ...claim, posting: { ...posting, run: 2, message } }])
    expect(claimed).toMatchObject({ status: "started", record: { run: 2, state: "queued" } })
    expect(await connection.jobs.orphans?.(Date.now() + 1_000, 10)).toEqual([])
    expect(await transport.jobs.take({ queues: ["q"], max: 1, wait: 300 }, never)).toEqual([])
  })

  test.each([
    ["put forward", {}, {}, runJobNow],
    ["cancelled with steps to revert", { reverts: true }, { reverting: { why: "cancelled" } }, cancelJob],
  ] as const)(
    "a job that is due later and %s while no task can be stored is posted, once, by maintenance",
    async (_how, fields, reverting, command) => {
      await using bench = await setup(server)
      const { transport, names } = bench
      const connection = connectionOf(transport)
      const posting = task({ due: Date.now() + 3_600_000 })
      await stored(bench, posting)
      const scheduled = recordOf(posting, "scheduled", { fence: "", ...fields })
      expect(await transport.jobs.decide([{ id: posting.id, expect: "", record: scheduled }])).toEqual([
        { status: "decided" },
      ])
      expect(await connection.jobs.orphans?.(Date.now() + 1_000, 10)).toEqual([])
      const config = Object((await bench.api(`STREAM.INFO.${names.queueStream}`))["config"])
      await bench.api(`STREAM.UPDATE.${names.queueStream}`, { ...config, max_msg_size: 16 })
      await expect(command(connection, posting.id)).rejects.toMatchObject({ outcome: "unknown" })
      await bench.api(`STREAM.UPDATE.${names.queueStream}`, { ...config })

      await republishOrphans(connection, Date.now() - 60_000)
      expect((await connection.jobs.find(posting.id))?.record.state).toBe("scheduled")
      await republishOrphans(connection, Date.now() + 1_000)
      await republishOrphans(connection, Date.now() + 1_000)
      expect(await transport.jobs.waiting?.({ queue: "q" }, 10)).toEqual([posting.id])
      const found = await connection.jobs.find(posting.id)
      expect(found?.record).toMatchObject({
        state: "queued",
        ...reverting,
      })

      const { token } = await bench.one()
      const { id, message } = found?.record ?? {}
      if (id === undefined || message === undefined) throw new Error("the record holds its task")
      const made = Result.getOrThrow(postingOf(message, "q"))
      const claim = { token, id, run: 1, retries: 0, worker: "w", at: Date.now(), posting: made }
      expect(await transport.jobs.claim([claim])).toMatchObject([{ status: "started", record: { state: "queued" } }])
      expect(await connection.jobs.orphans?.(Date.now() + 1_000, 10)).toEqual([])
      expect(await transport.jobs.take({ queues: ["q"], max: 1, wait: 300 }, never)).toEqual([])
    },
  )

  test("a job that was released to a later time while no task can be stored is posted by maintenance", async () => {
    await using bench = await setup(server)
    const { transport, names } = bench
    const connection = connectionOf(transport)
    const client = new Client(connection)
    const parent = await client.submit("a.b", { queue: "q" })
    const child = await client.submit("a.b", { queue: "q", after: parent.id, delay: 3600 })
    const { token, fence } = await bench.one()
    const { record } = (await connection.jobs.find(parent.id)) ?? {}
    if (record === undefined) throw new Error("it is there")
    const { message: _message, ...rest } = { ...record, state: "succeeded" as const, fence, endedAt: Date.now() }
    await transport.jobs.settle([{ token, record: rest, then: { kind: "ack" } }])

    const info = await bench.api(`STREAM.INFO.${names.queueStream}`)
    const config = Object(info["config"])
    await bench.api(`STREAM.UPDATE.${names.queueStream}`, { ...config, max_msg_size: 16 })
    await release(connection, new Map([[parent.id, "succeeded"]])).catch(() => undefined)
    await bench.api(`STREAM.UPDATE.${names.queueStream}`, { ...config })

    expect(await connection.jobs.find(child.id)).toMatchObject({ record: { state: "scheduled" } })
    expect(await transport.jobs.waiting?.({ queue: "q" }, 10)).toEqual([])
    await republishOrphans(connection, Date.now() + 1_000)
    await republishOrphans(connection, Date.now() + 1_000)
    expect(await transport.jobs.waiting?.({ queue: "q" }, 10)).toEqual([child.id])
    expect(await connection.jobs.orphans?.(Date.now() + 1_000, 10)).toEqual([])
    expect(await child.find()).toMatchObject({ state: "scheduled" })
  })

  test("a job whose record holds its task and that runs, waits or is due later is not taken for stranded", async () => {
    await using bench = await setup(server)
    const { transport } = bench
    const connection = connectionOf(transport)
    const ids: Array<string> = []
    for (const at of [0, 1, 2]) {
      const posting = task({ queue: `q${at}` })
      ids.push(posting.id)
      await stored(bench, posting)
      const { token, fence } = await bench.one(posting.queue)
      const record = recordOf(posting, "failed", { fence, message: posting.message })
      await transport.jobs.settle([{ token, record, then: { kind: "ack" } }])
      await rerunJob(connection, posting.id)
    }
    await bench.one("q0")
    const { token } = await bench.one("q1")
    await transport.jobs.settle([{ token, then: { kind: "hand-back", delay: 60_000 } }])
    expect(await connection.jobs.orphans?.(Date.now() + 1_000, 10)).toEqual([])
    // Orphans that were found and not posted are found again, also when only some of them fit into an answer.
    const { client, names } = bench
    await client.request(`$JS.API.STREAM.PURGE.${names.queueStream}`)
    const fresh = await connectNats(server.url, {
      namespace: names.namespace,
      lease: 30_000,
      name: "test",
      timeout: 5_000,
    })
    expect(await fresh.jobs.orphans?.(Date.now() + 1_000, 2)).toEqual(ids.slice(0, 2))
    await fresh.jobs.orphans?.(Date.now() + 1_000, 10)
    expect(await fresh.jobs.orphans?.(Date.now() + 1_000, 10)).toEqual(ids)
    await fresh.close()
  })

  test("a lease that another connection extends is known to the one that settles", async () => {
    await using bench = await setup(server, { lease: 1_000 })
    const keeper = await connectNats(server.url, {
      namespace: bench.names.namespace,
      lease: 1_000,
      name: "keeper",
      timeout: 5_000,
    })
    await stored(bench, task(), task())
    const [first, second] = await bench.transport.jobs.take({ queues: ["q"], max: 2, wait: 2_000 }, never)
    if (first === undefined || second === undefined) throw new Error("two must come")
    for (let times = 0; times < 3; times++) {
      await sleep(500)
      expect(await keeper.jobs.extend([first.token])).toEqual([true])
    }
    const settled = await bench.transport.jobs.settle([
      { token: first.token, then: { kind: "hand-back", delay: 0 } },
      { token: second.token, then: { kind: "ack" } },
    ])
    expect(settled.map(({ status }) => status)).toEqual(["ended", "gone"])
    const ids = [await bench.one(), await bench.one()].map(idOf)
    expect(ids.sort()).toEqual([idOf(first), idOf(second)].sort())
    await keeper.close()
  })

  test("what a run has said is written again before its time is over, and is no news then", async () => {
    await using bench = await setup(server, { lease: 1_000 })
    const { transport } = bench
    const posting = task()
    await stored(bench, posting)
    const { token, fence } = await bench.one()
    const heard: Array<JobRecord> = []
    await transport.jobs.watch({ id: posting.id }, (record) => heard.push(record), never)
    const noted = async () => (await transport.store.get([`run/${posting.id}`]))[0]?.revision
    await transport.jobs.report([{ token, record: recordOf(posting, "started", { fence, worker: "w" }) }])
    const before = await until("a note", noted)
    await until("the same note again", async () => (await noted()) !== before)
    expect((await transport.jobs.find(posting.id))?.record).toMatchObject({ state: "started", worker: "w" })
    expect(heard.length).toBe(1)
  })

  test("an end that comes while a wait for it begins is found or told", async () => {
    await using bench = await setup(server)
    const waiter = await connectNats(server.url, { ...bench.options, name: "waiter" })
    let [found, told] = [0, 0]
    for (let round = 0; round < 60; round++) {
      const posting = task()
      await stored(bench, posting)
      const { token, fence } = await bench.one()
      const record = recordOf(posting, "succeeded", { fence })
      const stop = new AbortController()
      const heard: Array<JobRecord> = []
      // The pause differs from round to round, and with it the order of the two.
      const ending = sleep(round % 4).then(() =>
        bench.transport.jobs.settle([{ token, record, then: { kind: "ack" } }]),
      )
      await sleep(round % 3)
      await waiter.jobs.watch({ id: posting.id, ends: true }, (each) => heard.push(each), stop.signal)
      const ended = await waiter.jobs.ended(posting.id)
      if (ended !== undefined) found++
      else await until(`the end of round ${round}`, async () => heard.some(({ state }) => state === "succeeded"))
      told += heard.length
      stop.abort()
      expect(await ending).toEqual([{ status: "ended" }])
    }
    expect(found).toBeGreaterThan(0)
    expect(told).toBeGreaterThan(0)
    await waiter.close()
  })

  test("a task for a queue without a worker is listed, and waits", async () => {
    await using bench = await setup(server)
    await stored(bench, task({ queue: "later", due: Date.now() + 60_000 }))
    expect(await bench.transport.jobs.queues?.()).toEqual([{ queue: "later", ready: 0, scheduled: 1, held: 0 }])
  })
})

test("a server without room refuses what is published, with what to do, is out of reach for pulls, and taken up again by itself", async () => {
  await using server = await startNats({ limits: "max_file: 5MB" })
  await using bench = await setup(server)
  const { transport, client, api } = bench
  const told: Array<string> = []
  transport.onStatus((status, why) => told.push(why === undefined ? status : `${status}: ${why.message}`))
  await stored(bench, task({ id: "before" }))
  await api("STREAM.CREATE.OTHER", { name: "OTHER", subjects: ["other"] })
  await until("a full server", async () => {
    const { error } = (await client.request("other", new Uint8Array(200_000))).json<{ error?: unknown }>()
    return error !== undefined
  })
  const refusal = {
    reason: "unavailable",
    outcome: "none",
    message: expect.stringMatching(/insufficient resources \(10023\).*free space.*no accepted task is lost/),
  }
  const [receipt] = await transport.jobs.publish([task({ id: "after" })])
  expect(receipt).toMatchObject({ status: "failed", error: refusal })
  await expect(transport.jobs.take({ queues: ["q"], max: 1, wait: 0 }, never)).rejects.toMatchObject(refusal)
  expect((await transport.jobs.find("before"))?.record.state).toBe("queued")
  expect(told).toEqual([expect.stringMatching(/^disconnected: .*free space/)])
  await api("STREAM.PURGE.OTHER")
  await until("its return", async () => told.at(-1) === "connected")
  expect(told).toHaveLength(2)
  await stored(bench, task({ id: "after" }))
  // The entry with which writes were tried is gone; the name of the queue stays.
  expect((await transport.store.list({ prefix: "", limit: 10 }))?.map(({ key }) => key)).toEqual(["queue/q"])
})

test("the longer acknowledgement subjects of later servers are understood", async () => {
  await using server = await startNats({ config: "feature_flags { js_ack_fc_v2: true }" })
  await using bench = await setup(server)
  const posting = task()
  await stored(bench, posting, task())
  const [first, second] = await bench.transport.jobs.take({ queues: ["q"], max: 2, wait: 2_000 }, never)
  if (first === undefined || second === undefined) throw new Error("two must come")
  // The subject has two parts more than the seven of earlier servers; nonce, number and time come before it in the token.
  expect(first.token.split(" ").at(-1)?.split(".").length).toBeGreaterThanOrEqual(12)
  expect(await bench.transport.jobs.extend([first.token])).toEqual([true])
  const record = recordOf(posting, "succeeded", { fence: first.fence })
  const settled = await bench.transport.jobs.settle([
    { token: first.token, record, then: { kind: "ack" } },
    { token: second.token, then: { kind: "hand-back", delay: 0 } },
  ])
  expect(settled.map(({ status }) => status)).toEqual(["ended", "ended"])
  expect(idOf(await bench.one())).toBe(idOf(second))
})
