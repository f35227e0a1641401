/** The order in which the tasks of a chord are stored, and what its submitter is told where one is not. */
import { CallboardError, connect, TransportError } from "callboard"
import { expect, onTestFinished, test } from "vitest"
import { ChordPlans, publishChords } from "../../../../../runtime/client/submitting/chords.ts"
import { generateId } from "../../../../../runtime/id.ts"
import type { SubmitResult } from "../../../../../runtime/jobs/receipt.ts"
import type { JobPosting } from "../../../../../runtime/protocol/message.ts"
import type { Store } from "../../../../../runtime/transport/store.ts"

const open = async () => {
  const client = await connect(`memory://${generateId()}`)
  onTestFinished(() => client.close())
  return client
}

const task = (n: number) => ({ task: "sum.one", input: { n } })

/** Two chords around a task without one; `refuse` are ids that are not accepted. */
const submitted = async (refuse: ReadonlyArray<string>, broken = false) => {
  const client = await open()
  const prepared = await client.prepare([
    { task: "sum.all", id: "a", chord: [task(1), task(2)] },
    { ...task(3), id: "alone" },
    { task: "sum.all", id: "b", chord: [{ task: "sum.all", chord: [task(4)] }] },
  ])
  const calls: Array<ReadonlyArray<string>> = []
  const publish = async (some: ReadonlyArray<JobPosting>): Promise<ReadonlyArray<SubmitResult>> => {
    calls.push(some.map(({ id }) => id))
    return some.map(({ id }) =>
      refuse.includes(id)
        ? new CallboardError("transport-unavailable", "it is away", { id, outcome: "none" })
        : { id, state: "queued", durability: "none" },
    )
  }
  const write = async () => {
    if (broken) throw new TransportError("unavailable", "the store is away")
    return []
  }
  const { chords = new ChordPlans(), postings, now } = prepared
  const { store: stored, jobs } = client.connection
  const store: Store = {
    get: (keys) => stored.get(keys),
    list: (range) => stored.list(range),
    now: () => stored.now(),
    write,
  }
  const board = { connection: { store, jobs }, findRefused: async () => new Map(), publish }
  return { results: await publishChords(chords, postings, now, board), calls }
}

test("bodies come before members, and each submission has the result of its own job", async () => {
  const { results, calls } = await submitted([])
  expect(results).toMatchObject([{ id: "a" }, { id: "alone" }, { id: "b" }])
  expect(calls).toEqual([
    ["a", "b", "b-0"],
    ["a-0", "a-1", "alone", "b-0-0"],
  ])
})

test("members of a body that was not accepted are not submitted; other submissions are", async () => {
  const { results, calls } = await submitted(["b-0"])
  expect(calls[1]).toEqual(["a-0", "a-1", "alone"])
  expect(results).toMatchObject([{ id: "a" }, { id: "alone" }, { code: "transport-unavailable" }])
  expect(results[2]).toMatchObject({ details: { id: "b", outcome: "unknown" } })
})

test("a member that was not accepted is told with the id under which all may be submitted again", async () => {
  const { results } = await submitted(["a-1"])
  expect(results).toMatchObject([
    { code: "transport-unavailable", details: { id: "a", outcome: "unknown" } },
    { id: "alone" },
    { id: "b" },
  ])
})

test("where the chord itself cannot be noted nothing is submitted, and that is final", async () => {
  const { results, calls } = await submitted([], true)
  expect(calls).toEqual([])
  const refused = { code: "transport-unavailable", details: { outcome: "none" } }
  expect(results).toMatchObject([refused, refused, refused])
})

test("a chord is not stored all or none", async () => {
  const client = await open()
  const submission = client.submitMany([{ task: "sum.all", chord: [task(1)] }], { atomic: true })
  await expect(submission).rejects.toMatchObject({ code: "unsupported", details: { field: "chord" } })
  expect((await client.jobs()).jobs).toEqual([])
})

interface Nested {
  readonly task: string
  readonly chord?: ReadonlyArray<Nested>
}
const nested = (depth: number): Nested => ({
  task: "sum.all",
  ...(depth === 0 ? {} : { chord: [nested(depth - 1)] }),
})
const chained = (links: number) => ({
  task: "sum.one",
  chain: Array.from({ length: links }, () => ({ task: "sum.all", chord: [{ task: "sum.one" }] })),
})

test.each([
  ["in each other", nested],
  ["in one chain", chained],
])("a hundred chords %s are accepted, more are refused", async (_, make) => {
  const client = await open()
  expect((await client.prepare([make(100)])).postings).toHaveLength(101)
  const refused = { code: "invalid-input", details: { field: expect.stringMatching(/chord$/) } }
  await expect(client.prepare([make(101)])).rejects.toMatchObject(refused)
  await expect(client.prepare([make(2_000)])).rejects.toMatchObject(refused)
})

test("a member whose id is too long with its place in the chords is refused", async () => {
  const client = await open()
  const prepared = client.prepare([{ ...nested(100), id: "b".repeat(128) }])
  const details = { field: expect.stringMatching(/chord\[0\]\.id$/) }
  await expect(prepared).rejects.toMatchObject({ code: "invalid-input", details })
})
