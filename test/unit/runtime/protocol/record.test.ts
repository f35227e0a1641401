import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { postingOf } from "../../../../runtime/protocol/headers.ts"
import { type Headers, type Message, publishKey } from "../../../../runtime/protocol/message.ts"
import {
  claimed,
  earlierWith,
  isClaimOf,
  type JobRecord,
  recordFromJson,
  recordOfPosting,
  recordToJson,
  started,
  step,
  TIMELINE_LENGTH,
  tombstoneOf,
  unclaimed,
} from "../../../../runtime/protocol/record.ts"

const now = Date.UTC(2026, 10, 20)

const message = (headers: Headers = {}, priority?: number): Message => ({
  headers: { task: "text", id: "1", ...headers },
  properties: {
    content_type: "image/png",
    content_encoding: "binary",
    ...(priority === undefined ? {} : { priority }),
  },
  body: new Uint8Array([0xff, 0, 0xfe]),
})

const record = (headers: Headers = {}, priority?: number): JobRecord =>
  Result.getOrThrow(recordOfPosting(Result.getOrThrow(postingOf(message(headers, priority), "q")), now))

describe("recordOfPosting", () => {
  test("a task that says nothing is queued at once, under the default priority", () => {
    expect(record()).toEqual({
      id: "1",
      task: "text",
      meth: null,
      name: "text",
      queue: "q",
      priority: 4,
      state: "queued",
      run: 1,
      attempt: 0,
      retries: 0,
      fence: "",
      submittedAt: now,
      timeline: [{ n: 1, run: 1, at: now, state: "queued" }],
    })
  })

  test("what the headers say is told, and the body never opened", () => {
    const own = { submittedAt: now - 5, meta: { a: 1 }, description: "d", front: true, run: 2 }
    const headers = {
      meth: "count",
      parent_id: "p",
      root_id: "r",
      group: "g",
      expires: "2027-01-01",
      retries: 3,
      callboard: own,
    }
    expect(record(headers, 9)).toMatchObject({
      name: "text.count",
      priority: 9,
      front: true,
      run: 2,
      retries: 3,
      submittedAt: now - 5,
      expiresAt: Date.UTC(2027, 0, 1),
      parentId: "p",
      rootId: "r",
      group: "g",
      meta: { a: 1 },
      description: "d",
    })
    expect(record({ shadow: "shown" }).name).toBe("shown")
  })

  test("scheduled before its time, queued after, and the timeline remembers that it was scheduled", () => {
    const submittedAt = now - 10_000
    const early = record({ eta: "2026-11-20T00:00:01", callboard: { submittedAt } })
    expect(early).toMatchObject({
      state: "scheduled",
      dueAt: now + 1000,
      timeline: [{ state: "scheduled", due: now + 1000 }],
    })
    const late = record({ eta: "2026-11-19T23:59:59", callboard: { submittedAt } })
    expect(late).toMatchObject({ state: "queued", timeline: [{ at: submittedAt, state: "scheduled" }] })
  })

  test("headers that make no task fail as a value", () => {
    const posting = { id: "1", run: 1, retries: 0, queue: "q", message: { ...message(), headers: {} } }
    expect(Result.flip(recordOfPosting(posting, now))).toMatchObject({
      success: { _tag: "InvalidTask", field: "task" },
    })
  })
})

describe("outcomes of earlier runs", () => {
  const ended = (result: unknown) => ({ run: 1, type: "SUCCESSFUL", endedAt: now, attempt: 1, result }) as const

  test.each([
    ["64 KiB", "x".repeat(65_534), true],
    ["a byte more", "x".repeat(65_535), false],
    ["fewer characters of three bytes each", "\u6f22".repeat(21_900), false],
  ])("keep results of up to 64 KiB: %s", (_, result, isKept) => {
    const [kept] = earlierWith({}, ended(result)).earlier ?? []
    expect([kept?.result, kept?.omitted]).toEqual(isKept ? [result, undefined] : [undefined, true])
  })
})

describe("timeline", () => {
  test("keeps the newest steps and goes on counting", () => {
    let grown = record()
    for (let n = 2; n <= 120; n++) grown = step(grown, { at: now + n, state: n % 2 === 0 ? "started" : "queued" })
    expect(grown.timeline).toHaveLength(TIMELINE_LENGTH)
    expect(grown.timeline.map(({ n }) => n)).toEqual(Array.from({ length: TIMELINE_LENGTH }, (_, at) => 71 + at))
    expect(grown.state).toBe("started")
  })

  test("the next run goes on in the same timeline", () => {
    const again = step(record(), { at: now, state: "queued", run: 2, reason: "rerun" })
    expect(again).toMatchObject({
      run: 2,
      timeline: [
        { n: 1, run: 1 },
        { n: 2, run: 2, reason: "rerun" },
      ],
    })
  })

  test("a task that was passed on before any attempt forgets how it came here", () => {
    const before: JobRecord = { ...record(), successor: "1/1/0/1", followUps: [] }
    const begun = started(before, { fence: "f", worker: "w", at: now + 1 })
    for (const gone of ["successor", "followUps"]) expect(begun).not.toHaveProperty(gone)
  })

  test("a claim that is taken back and made again is the same, however long the timeline", () => {
    let before = record()
    for (let count = 1; count <= TIMELINE_LENGTH + 2; count++) {
      const claim = { fence: `f${count}`, worker: "w", at: now + count }
      const stored = claimed(before, claim)
      expect(isClaimOf(stored, claim.fence)).toBe(true)
      const back = unclaimed(stored)
      expect(back).toMatchObject({ attempt: count - 1, claims: count - 1, state: before.state })
      expect(isClaimOf(back, claim.fence)).toBe(false)
      expect(claimed(back, claim)).toEqual(stored)
      before = stored
    }
  })

  test("what a run only reported, or handed back, is no claim", () => {
    const begun = started(record(), { fence: "f", worker: "w", at: now })
    expect(isClaimOf(begun, "f")).toBe(false)
    expect(isClaimOf({ ...begun, state: "queued", claims: 1 }, "f")).toBe(false)
    expect(isClaimOf({ ...begun, claims: 1 }, "g")).toBe(false)
  })

  test("a tombstone keeps what follows for others, and nothing else of the job", () => {
    const own = Result.getOrThrow(postingOf(message(), "q"))
    const other = Result.getOrThrow(postingOf(message({ id: "2" }), "q"))
    const ended: JobRecord = { ...record(), state: "succeeded", result: 1, meta: { a: 1 }, message: own.message }
    expect(tombstoneOf({ ...ended, followUps: [other, own] })).toMatchObject({ tombstone: true, followUps: [other] })
    const bare = tombstoneOf({ ...ended, followUps: [own] })
    for (const gone of ["result", "meta", "message", "followUps"]) expect(bare).not.toHaveProperty(gone)
  })

  test("an attempt that begins forgets what the last one left", () => {
    const before: JobRecord = { ...record(), successor: "1/1/1", followUps: [], endedAt: 1, attempt: 1 }
    const begun = started(before, { fence: "f", worker: "w", at: now + 1 })
    expect(begun).toMatchObject({ state: "started", attempt: 2, fence: "f", worker: "w", startedAt: now + 1 })
    for (const gone of ["successor", "followUps", "endedAt"]) expect(begun).not.toHaveProperty(gone)
  })
})

describe("bytes", () => {
  const bytes = fc.uint8Array({ maxLength: 50 })
  const plain = fc.jsonValue().map((value): unknown => JSON.parse(JSON.stringify(value)))
  const records: fc.Arbitrary<JobRecord> = fc
    .record({
      result: plain,
      raw: fc.option(bytes),
      body: fc.option(bytes),
      follow: fc.array(bytes, { maxLength: 3 }),
      error: fc.string(),
    })
    .map(({ result, raw, body, follow, error }) => ({
      ...record(),
      result,
      error: { name: "E", message: error, reason: "handler" },
      ...(raw === null ? {} : { raw }),
      ...(body === null ? {} : { message: { ...message(), body } }),
      ...(follow.length === 0
        ? {}
        : { followUps: follow.map((each) => Result.getOrThrow(postingOf({ ...message(), body: each }, "next"))) }),
    }))

  test("a record reads back, with every byte of its messages", () => {
    fc.assert(
      fc.property(records, (each) => {
        expect(Result.getOrThrow(recordFromJson(recordToJson(each)))).toEqual(each)
      }),
    )
  })

  test.each([
    "",
    "{",
    "null",
    "[]",
    "{}",
    '{"id":"1"}',
    '{"id":"1","state":"lost","timeline":[]}',
    '{"id":1,"state":"queued","timeline":[]}',
    '{"id":"1","state":"queued"}',
    '{"id":"1","state":"queued","timeline":[],"raw":"***"}',
  ])("%s is no record", (text) => {
    expect(Result.flip(recordFromJson(text))).toMatchObject({ success: { _tag: "UnreadableRecord" } })
  })
})

test("publish keys differ by run, retries and hops", () => {
  expect(publishKey({ id: "a", run: 1, retries: 0 })).toBe("a/1/0")
  expect(publishKey({ id: "a", run: 1, retries: 0, hops: 0 })).toBe("a/1/0")
  expect(publishKey({ id: "a", run: 2, retries: 3, hops: 1 })).toBe("a/2/3/1")
})
