/** A process that dies in the middle of storing or counting a chord, and how the sweep repairs the chord. */
import { actor, type Client, connect } from "callboard"
import * as Schema from "effect/Schema"
import { expect, onTestFinished, test } from "vitest"
import { generateId } from "../../../../../runtime/id.ts"
import { ChordSweep } from "../../../../../runtime/jobs/dependencies/chord-sweep.ts"
import { countMembers, openChord, settleChord } from "../../../../../runtime/jobs/dependencies/chords.ts"
import type { SubmissionFields } from "../../../../../runtime/jobs/submission/submission.ts"
import { decodePart, encodePart, withOutcomes } from "../../../../../runtime/protocol/chord.ts"
import { step } from "../../../../../runtime/protocol/record.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import { Faults, faultyPlugin } from "../../../../support/faults.ts"
import { eventually } from "../../../../support/servers/process.ts"
import { start } from "../../../../support/services.ts"

const HOUR = 3_600_000
const ran: Array<unknown> = []
const sum = actor("sum", {
  methods: {
    one: ({ n }: { readonly n: number }) => n,
    list: (results: unknown) => {
      ran.push(results)
      return results
    },
  },
})

const setUp = async () => {
  ran.length = 0
  const board = `memory://${generateId()}`
  const client = await connect(board)
  onTestFinished(() => client.close())
  const submit = (size = 2) =>
    client.submit("sum.list", {
      id: "body",
      chord: Array.from({ length: size }, (_, n) => ({ task: "sum.one", input: { n } })),
    })
  const burst = async () => (await start([sum], { transport: board, burst: true })).stopped
  const sweep = async (now = Date.now()) => {
    const looking = new ChordSweep(client.connection)
    for (let isDone = false; !isDone; ) isDone = await looking.look(now)
  }
  return { client, board, submit, burst, sweep }
}

const entries = async ({ connection: { store } }: Client) =>
  (await store.list({ prefix: "chord", limit: 100 })).map(({ key }) => key)
const stateOf = async (client: Client, id: string) => (await client.job(id).find()).state

/** Ends a waiting job like a worker that dies before it counts the member. */
const endUncounted = async ({ connection: { jobs } }: Client, id: string, result: unknown) => {
  const found = await jobs.find(id)
  if (found === undefined) throw new Error("it is there")
  const { message: _message, ...record } = step(found.record, { at: Date.now(), state: "succeeded" })
  const ended = { ...record, result, fence: "", endedAt: Date.now(), keepMs: 60_000 }
  const [answer] = await jobs.decide([{ id, expect: found.revision, record: ended, withdraw: true }])
  expect(answer).toEqual({ status: "decided" })
}

test("a member whose worker died before it noted its end is found by the next worker", async () => {
  const { client, submit, burst } = await setUp()
  await submit(3)
  await endUncounted(client, "body-1", 10)
  await burst()
  expect(ran).toEqual([[0, 10, 2]])
  expect(await entries(client)).toEqual([])
})

test("a body whose last member was noted by a process that died after it is released by the next worker", async () => {
  const { client, submit, burst } = await setUp()
  await submit(2)
  await endUncounted(client, "body-0", 1)
  await endUncounted(client, "body-1", 2)
  const { store } = client.connection
  const [entry] = await store.get(["chord-part/body/0"])
  const part = entry && decodePart(entry.value)
  const end = (result: number) => ({ state: "succeeded", result }) as const
  const outcomes = [1, 2].map((result, at) => ({ of: "body", at, end: end(result) }))
  const full = part && withOutcomes(part, outcomes)
  if (full === undefined) throw new Error("it is noted")
  await store.write([{ key: "chord-part/body/0", value: encodePart(full) }])
  expect(await stateOf(client, "body")).toBe("deferred")
  await burst()
  expect(ran).toEqual([[1, 2]])
})

test("ends that are noted by several processes at a time, and again, count once, and release the body once", async () => {
  const { client, submit, burst } = await setUp()
  await submit(250)
  const outcomes = Array.from({ length: 250 }, (_, at) => ({
    of: "body",
    at,
    end: { state: "succeeded", result: at } as const,
  }))
  const slices = Array.from({ length: 16 }, (_, n) => outcomes.filter(({ at }) => at % 8 === n % 8))
  await Promise.all(slices.map((some) => countMembers(client.connection, some)))
  expect(await stateOf(client, "body")).toBe("queued")
  expect(await entries(client)).toEqual([])
  expect(await countMembers(client.connection, outcomes)).toEqual([])
  expect(await settleChord(client.connection, { body: "body", parts: 3 })).toBeUndefined()
  await burst()
  expect(ran).toEqual([outcomes.map(({ at }) => at)])
})

test("what a submitter leaves that died before it stored the body is removed after an hour, not before", async () => {
  const { client, sweep } = await setUp()
  await openChord(client.connection, "body", [["m"]], Date.now())
  await sweep()
  expect(await entries(client)).toEqual(["chord-part/body/0", "chord/body"])
  await sweep(Date.now() + 2 * HOUR)
  expect(await entries(client)).toEqual([])
})

test("a body whose submitter died before it stored the members fails after an hour; submitted again before, all is there", async () => {
  const { client, submit, burst, sweep } = await setUp()
  const { postings, known, now } = await client.prepare([
    {
      task: "sum.list",
      id: "body",
      chord: [
        { task: "sum.one", input: { n: 0 } },
        { task: "sum.one", input: { n: 1 } },
      ],
    },
  ])
  const [body, ...members] = postings
  if (body === undefined) throw new Error("it has a body")
  const begin = async () => {
    await openChord(
      client.connection,
      "body",
      members.map(({ id }) => [id]),
      now,
    )
    await client.post({ postings: [body], known, unique: new Set(), now, atomic: false })
  }
  await begin()
  await sweep()
  expect(await stateOf(client, "body")).toBe("deferred")
  expect((await submit(2)).receipt).toMatchObject({ duplicate: true, state: "deferred" })
  await burst()
  expect(ran).toEqual([[0, 1]])

  await client.job("body").delete()
  for (const { id } of members) await client.job(id).delete()
  const other = await client.prepare([{ task: "sum.list", id: "late", chord: [{ task: "sum.one", input: { n: 0 } }] }])
  const [late] = other.postings
  if (late === undefined) throw new Error("it has a body")
  await openChord(client.connection, "late", [["late-0"]], now)
  await client.post({ postings: [late], known: other.known, unique: new Set(), now, atomic: false })
  await sweep(Date.now() + 2 * HOUR)
  expect(await client.job("late").outcome()).toMatchObject({ state: "failed", error: { name: "MemberFailed" } })
})

const noteEnd = ({ connection }: Client, at: number, result: unknown) =>
  countMembers(connection, [{ of: "body", at, end: { state: "succeeded", result } }])

test("a chord that was deleted and is submitted again knows nothing of how its members had ended", async () => {
  const { client, submit, burst, sweep } = await setUp()
  const forget = async (size: number) => {
    for (let at = 0; at < size; at++) await client.job(`body-${at}`).delete()
    await client.job("body").delete()
  }
  await submit(250)
  await noteEnd(client, 0, "old")
  await client.job("body-1").cancel()
  await forget(250)
  await submit(2)
  await noteEnd(client, 1, 1)
  expect(await stateOf(client, "body")).toBe("deferred")
  await burst()
  expect(ran).toEqual([[0, 1]])
  expect(await entries(client)).toEqual([])

  await forget(2)
  await openChord(client.connection, "body", [["body-0"], ["body-1"]], Date.now() + 1)
  await sweep()
  expect(await entries(client)).toEqual(["chord-part/body/0", "chord/body"])
  await submit(2)
  await burst()
  expect(ran).toEqual([
    [0, 1],
    [0, 1],
  ])
})

test("a chord is submitted again while one of its members has ended and is not kept", async () => {
  const { client, burst } = await setUp()
  const submit = () =>
    client.submit("sum.list", {
      id: "body",
      chord: [
        { task: "sum.one", input: { n: 0 }, resultTtl: 0 },
        { task: "sum.one", input: { n: 1 }, delay: 2 },
      ],
    })
  await submit()
  await burst()
  await expect(client.job("body-0").find()).rejects.toMatchObject({ code: "gone" })
  expect((await submit()).receipt).toMatchObject({ id: "body", duplicate: true })
  await eventually(async () => (await stateOf(client, "body-1")) === "queued", { message: "it is due" })
  await burst()
  expect(ran).toEqual([[0, 1]])
})

test("a body is not checked before it has the results of its members, unless it does not get them", async () => {
  const { client, board } = await setUp()
  const total = actor("total", {
    methods: {
      of: { input: Schema.Array(Schema.Finite), run: (numbers) => numbers.reduce((sum, n) => sum + n, 0) },
    },
  })
  await start([sum, total], { transport: board })
  const tasks = [1, 2].map((n) => ({ task: "sum.one", input: { n } }))
  expect(await (await client.submit("total.of", { chord: tasks })).result({ timeout: 30 })).toBe(3)
  const wrong = client.submit("total.of", { input: "none", chord: { tasks, immutable: true } })
  await expect(wrong).rejects.toMatchObject({ code: "invalid-input", details: { field: "input" } })
})

test("a member that is run again while others have not ended is waited for", async () => {
  const { client, submit, burst } = await setUp()
  await submit(2)
  await client.job("body-0").cancel()
  await client.job("body-0").retry()
  await endUncounted(client, "body-1", 1)
  await noteEnd(client, 1, 1)
  expect(await stateOf(client, "body")).toBe("deferred")
  await burst()
  expect(ran).toEqual([[0, 1]])
})

test("a member that is run again while its body is released is waited for", async () => {
  const { client, submit } = await setUp()
  const { connection } = client
  await submit(1)
  await endUncounted(client, "body-0", 1)
  let tries = 0
  const meeting = {
    ...connection,
    jobs: {
      ...connection.jobs,
      find: (id: string) => connection.jobs.find(id),
      decide: async (decisions: Parameters<typeof connection.jobs.decide>[0]) => {
        if (++tries > 1) return connection.jobs.decide(decisions)
        const key = "chord-part/body/0"
        const [entry] = await connection.store.get([key])
        const part = entry && decodePart(entry.value)
        if (part === undefined) throw new Error("there is a part")
        await connection.store.write([{ key, value: encodePart({ ...part, ends: [null] }) }])
        return [{ status: "conflict" as const }]
      },
    },
  }
  const end = { state: "failed" } as const
  await countMembers(meeting, [{ of: "body", at: 0, end }])
  expect(tries).toBe(1)
  expect(await stateOf(client, "body")).toBe("deferred")
})

test("ids that are given to what follows a member are promised", async () => {
  const { client } = await setUp()
  await client.submit("sum.list", {
    chord: [
      {
        task: "sum.one",
        callbacks: [{ task: "sum.one", id: "called" }],
        chain: [{ task: "sum.one" }, { task: "sum.one", id: "linked" }],
      },
      { task: "sum.list", chord: [{ task: "sum.one", callbacks: [{ task: "sum.one", id: "deep" }] }] },
    ],
  })
  await client.submit("sum.one", {
    id: "first",
    chain: [{ task: "sum.list", chord: [{ task: "sum.one", id: "fanned" }, { task: "sum.one" }] }],
  })
  for (const after of ["called", "linked", "deep", "fanned"]) {
    const waiting = await client.submit("sum.one", { after })
    expect(waiting.receipt.state, after).toBe("deferred")
  }
})

test("a body past its expiry expires, and its entries are removed with its record", async () => {
  const { client, sweep } = await setUp()
  const chord = [{ task: "sum.one", input: { n: 1 } }]
  await client.submit("sum.list", { id: "outer", chord: [{ task: "sum.list", id: "body", expires: 0.05, chord }] })
  const waits = await client.submit("sum.one", { input: { n: 2 }, after: { ids: "body", allowFailure: true } })
  await sweep(Date.now() + 2_000)
  expect(await stateOf(client, "body")).toBe("expired")
  expect(await stateOf(client, waits.id)).toBe("queued")
  expect(await client.job("outer").outcome()).toMatchObject({ state: "failed", error: { name: "MemberFailed" } })
  await client.job("body").delete()
  await client.job("outer").delete()
  await sweep()
  expect(await entries(client)).toEqual([])
})

test("a sweep over many chords looks at each", async () => {
  const { client, sweep } = await setUp()
  const chord = [{ task: "sum.one", input: { n: 1 } }]
  const ids = Array.from({ length: 700 }, (_, at) => `b${at}`)
  await client.submitMany(ids.map((id) => ({ task: "sum.list", id, chord })))
  for (const id of ids) await endUncounted(client, `${id}-0`, 1)
  await sweep()
  const { jobs } = await client.jobs({ states: ["deferred"] })
  expect(jobs).toEqual([])
  expect(await entries(client)).toEqual([])
})

test.each<readonly [string, SubmissionFields, string]>([
  ["another job has the id of a member", { id: "taken", input: { n: 1 } }, "job-exists"],
  ["a member waits for a job that is not known", { after: "nope" }, "invalid-input"],
])("where %s nothing of the chord is stored, also not of its members before that one", async (_, refused, code) => {
  const { client } = await setUp()
  await client.submit("sum.one", { id: "taken", input: { n: 7 } })
  const first = { task: "sum.one", input: { n: 0 } }
  const [answer] = await client.submitMany([
    { task: "sum.list", id: "c", chord: [first, { task: "sum.one", ...refused }] },
  ])
  expect(answer).toMatchObject({ code, details: { id: "c", outcome: "none" } })
  expect(await entries(client)).toEqual([])
  expect((await client.jobs({ limit: 10 })).jobs.map(({ id }) => id)).toEqual(["taken"])
  // Mended, it is accepted under the same id.
  const mended = [first, { task: "sum.one", id: "free", input: { n: 1 }, after: "taken" }]
  expect(await client.submit("sum.list", { id: "c", chord: mended })).toMatchObject({ id: "c" })
})

test("a submitter that dies at any of its calls leaves no body that waits for longer than an hour", async () => {
  const one = { task: "sum.one", input: { n: 1 } }
  const chord = [
    ...Array.from({ length: 101 }, () => one),
    { task: "sum.list", chord: [one, { ...one, callbacks: [one] }] },
    { ...one, chain: [{ task: "sum.list", chord: [one] }] },
  ]
  const states = new Set<string>()
  for (let calls = 0; !states.has("succeeded"); calls++) {
    const name = generateId()
    const faults = new Faults()
    let left = calls
    faults.before = (call) => {
      if (/^(jobs\.(publish|decide)|store\.write)/.test(call) && left-- <= 0)
        throw new TransportError("closed", "the submitter has died")
    }
    await using dying = await connect(`faulty://${name}`, { transports: { faulty: faultyPlugin(faults) } })
    await dying.submit("sum.list", { id: "outer", chord }).catch(() => undefined)
    await using client = await connect(`memory://${name}`)
    await (await start([sum], { transport: `memory://${name}`, burst: true })).stopped
    // Twice: the bodies of inner chords, which are members of the outer one, fail in the first round.
    for (const later of [2 * HOUR, 2 * HOUR]) {
      const looking = new ChordSweep(client.connection)
      for (let isDone = false; !isDone; ) isDone = await looking.look(Date.now() + later)
    }
    expect((await client.jobs({ states: ["deferred"] })).jobs).toEqual([])
    const outer = await client.connection.jobs.find("outer")
    states.add(outer?.record.state ?? "not stored")
  }
  expect(states).toEqual(new Set(["not stored", "failed", "succeeded"]))
})
