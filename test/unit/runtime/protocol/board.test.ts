/** The rules of job boards, as tables. */
import { Result } from "effect"
import { describe, expect, test } from "vitest"
import {
  BOARD_RESERVE_BYTES,
  type BoardRecord,
  boardConfiguration,
  boardJobId,
  boardPlaceOf,
  boardStateOf,
  bucketOpened,
  bucketsRetired,
  checkBoardName,
  checkOwner,
  claimEnded,
  claimed,
  earlierClaims,
  extended,
  liveClaim,
  parseBoardRecord,
  posted,
  reorder,
  STORY_LENGTH,
  storyOf,
} from "../../../../runtime/protocol/board.ts"

const fresh = posted("j", { name: "a", priority: "NORMAL", details: {} }, 1_000)

const claim = (record: BoardRecord | undefined, owner: string, at: number, expiryMs: number | null = 100, wait = 0) =>
  claimed(record, { id: "j", owner, expiryMs, reclaimAfterMs: wait }, at)

const held = Result.getOrThrow(claim(fresh, "me", 1_010))
const endless = Result.getOrThrow(claim(fresh, "me", 1_010, null))

const outcome = <A>(result: Result.Result<A, { readonly code: string; readonly message: string }>) =>
  Result.isSuccess(result) ? "yes" : `${result.failure.code}: ${result.failure.message}`

describe("claim", () => {
  const table: ReadonlyArray<readonly [string, ReturnType<typeof claim>, string | RegExp]> = [
    ["a job that is gone", claim(undefined, "me", 1_010), /^not-found: job j is not on the board/],
    ["an unclaimed job", claim(fresh, "me", 1_010), "yes"],
    ["a claimed job", claim(held, "other", 1_109), 'unclaimable: job j is claimed by "me"'],
    ["its own job", claim(held, "me", 1_109), 'unclaimable: job j is claimed by "me"'],
    ["a job whose claim ends at this very moment", claim(held, "other", 1_110), "yes"],
    ["a job claimed without end", claim(endless, "other", 9e15), 'unclaimable: job j is claimed by "me"'],
    [
      "a lapsed job too early",
      claim(held, "other", 1_150, 100, 50),
      'unclaimable: job j can be claimed again in 0.01 s: "me" lost it 0.04 s ago',
    ],
    ["a lapsed job in time", claim(held, "other", 1_160, 100, 50), "yes"],
  ]
  test.each(table)("%s", (_, result, expected) => {
    expect(outcome(result)).toMatch(expected)
  })

  test("numbers rise, and the story tells who lost the job and who took it over", () => {
    const second = Result.getOrThrow(claim(held, "other", 1_200))
    expect(second.claim).toEqual({ owner: "other", number: 2, at: 1_200, until: 1_300 })
    expect(second.story).toEqual([
      { at: 1_000, step: "posted" },
      { at: 1_010, step: "claimed", owner: "me" },
      { at: 1_110, step: "lapsed", owner: "me" },
      { at: 1_200, step: "taken-over", owner: "other" },
    ])
    expect(earlierClaims(storyOf(second, 1_200))).toEqual([{ owner: "me", at: 1_010, ended: "lapsed", endedAt: 1_110 }])
    // A claim that lapses later is in the story before the entry is written again.
    expect(storyOf(held, 1_110).map(({ step }) => step)).toEqual(["posted", "claimed", "lapsed"])
    expect(storyOf(held, 1_109).map(({ step }) => step)).toEqual(["posted", "claimed"])
  })

  test("the time of the last change never goes back", () => {
    expect(Result.getOrThrow(claim(fresh, "me", 900)).modifiedAt).toBe(1_000)
  })

  test("the story keeps the posting and its newest steps, and an entry never grows beyond its reserve", () => {
    const owner = '"'.repeat(255)
    let record: BoardRecord = fresh
    for (let at = 0; at < 50; at++) {
      record = Result.getOrThrow(claim(record, owner, 2e12 + at * 10, 5))
      expect(record.story.length).toBeLessThanOrEqual(STORY_LENGTH)
      if (at % 3 === 0)
        record = Result.getOrThrow(claimEnded(record, "abandoned", { id: "j", owner }, 2e12 + at * 10 + 1))
    }
    expect(record.story).toHaveLength(STORY_LENGTH)
    expect(record.story[0]).toEqual({ at: 1_000, step: "posted" })
    const grown = JSON.stringify({ ...record, sequence: Number.MAX_SAFE_INTEGER }).length - JSON.stringify(fresh).length
    expect(grown).toBeLessThan(BOARD_RESERVE_BYTES)
  })
})

describe("the end of a claim", () => {
  const second = Result.getOrThrow(claim(held, "me", 1_200))
  const end = (record: BoardRecord | undefined, owner: string, at: number, number?: number) =>
    claimEnded(record, "consumed", { id: "j", owner, ...(number === undefined ? {} : { claim: number }) }, at)
  const table: ReadonlyArray<readonly [string, ReturnType<typeof end>, string | RegExp]> = [
    ["of a job that is gone", end(undefined, "me", 1_020), /^not-found/],
    ["of an unclaimed job", end(fresh, "me", 1_020), "not-found: job j is not claimed: only its owner can do that"],
    ["by its owner", end(held, "me", 1_020), "yes"],
    ["by another", end(held, "other", 1_020), 'not-owner: job j is claimed by "me", not by "other"'],
    ["that has lapsed", end(held, "me", 1_110), /^not-found/],
    [
      "by a number that no claim has had",
      end(held, "me", 1_020, 9),
      "not-owner: job j has no claim 9: the last claim is 1",
    ],
    ["that was taken over under the same name", end(second, "me", 1_210, 1), /^not-owner: .*claimed again by "me"/],
    ["with its number", end(second, "me", 1_210, 2), "yes"],
  ]
  test.each(table)("%s", (_, result, expected) => {
    expect(outcome(result)).toMatch(expected)
  })
})

test("extending sets what remains, up or down, and only while the claim holds", () => {
  const extend = (record: BoardRecord | undefined, at: number, expiryMs: number | null, owner?: string) =>
    extended(record, { id: "j", expiryMs, ...(owner === undefined ? {} : { owner }) }, at)
  const untilOf = (result: ReturnType<typeof extend>) => Result.getOrThrow(result)?.claim?.until
  expect(untilOf(extend(held, 1_020, 500))).toBe(1_520)
  expect(untilOf(extend(held, 1_020, 10))).toBe(1_030)
  expect(untilOf(extend(endless, 1_020, 10))).toBe(1_030)
  expect(untilOf(extend(held, 1_020, null))).toBeNull()
  expect(untilOf(extend(held, 1_110, 500))).toBeUndefined()
  expect(untilOf(extend(fresh, 1_020, 500))).toBeUndefined()
  expect(untilOf(extend(undefined, 1_020, 500))).toBeUndefined()
  expect(outcome(extend(held, 1_020, 500, "other"))).toMatch(/^not-owner/)
})

test("the state of a job follows from its entry and the time", () => {
  expect(boardStateOf(undefined, 0)).toBe("COMPLETE")
  expect(boardStateOf(fresh, 1_020)).toBe("UNCLAIMED")
  expect(boardStateOf(held, 1_109)).toBe("CLAIMED")
  expect(boardStateOf(held, 1_110)).toBe("UNCLAIMED")
  expect(liveClaim(endless, Number.MAX_SAFE_INTEGER)?.owner).toBe("me")
})

test.each([
  ["builds", "yes"],
  ["", /^invalid-input/],
  ["a/b", /^invalid-input/],
  ["x".repeat(65), /^invalid-input/],
  [7, /^invalid-input/],
])("the name of a board: %s", (name, expected) => {
  expect(outcome(checkBoardName(name))).toMatch(expected)
})

test.each([
  ["me", "yes"],
  ["ü".repeat(127), "yes"],
  ["ü".repeat(128), /^invalid-input: owner/],
  ["", /^invalid-input: owner/],
  [7, /^invalid-input: owner: must be text$/],
  [undefined, /^invalid-input: owner/],
  ["a\nb", /^invalid-input: owner/],
  ["\ud800", /^invalid-input: owner/],
])("an owner: %s", (owner, expected) => {
  expect(outcome(checkOwner(owner))).toMatch(expected)
})

describe("an entry is read only where it is one", () => {
  const record = { ...held, book: { name: "b", uuid: "u" }, sequence: 7 }
  test.each<readonly [string, object | string, boolean]>([
    ["a whole one", record, true],
    ["a new one", fresh, true],
    ["garbage", "{garbage", false],
    ["another value", "[]", false],
    ["no id", { ...record, id: undefined }, false],
    ["an unknown priority", { ...record, priority: "urgent" }, false],
    ["details that are none", { ...record, details: [] }, false],
    ["half a book", { ...record, book: { name: "b" } }, false],
    ["a time that is text", { ...record, createdAt: "now" }, false],
    ["a sequence that is text", { ...record, sequence: "7" }, false],
    ["a claim without an end", { ...record, claim: { owner: "me", number: 1, at: 1 } }, false],
    ["no story", { ...record, story: undefined }, false],
    ["an unknown step", { ...record, story: [{ at: 1, step: "flown" }] }, false],
  ])("%s", (_, value, isRead) => {
    const text = typeof value === "string" ? value : JSON.stringify(value)
    expect(parseBoardRecord(text)).toEqual(isRead ? value : undefined)
  })
})

test("an id tells the place of its job, and no other text is one", () => {
  const uuid = "01a1faa7-32a8-772e-8df9-81ca40f8a698"
  const place = { priority: "VERY_LOW", bucket: 12_345, slot: 255 } as const
  expect(boardPlaceOf(boardJobId(uuid, place))).toEqual(place)
  for (const text of ["", uuid, `${uuid}-5-0-0`, `${uuid}-0-0-0/`, `${uuid}-0--0`])
    expect(boardPlaceOf(text)).toBeUndefined()
})

describe("buckets", () => {
  const one = bucketOpened({}, "NORMAL", undefined, 0) ?? {}
  const two = bucketOpened(one, "NORMAL", 0, 77) ?? {}
  test("are opened once, one after the other", () => {
    expect(one).toEqual({ NORMAL: { head: 0, opened: [0] } })
    expect(two).toEqual({ NORMAL: { head: 0, opened: [0, 77] } })
    expect(bucketOpened(two, "NORMAL", 0, 99)).toBeUndefined()
    expect(bucketOpened(two, "NORMAL", undefined, 99)).toBeUndefined()
    expect(bucketOpened(two, "LOW", undefined, 0)).toMatchObject({ LOW: { head: 0, opened: [0] } })
  })
  test("are retired from the head, never the last one", () => {
    expect(bucketsRetired(two, "NORMAL", 1)).toEqual({ NORMAL: { head: 1, opened: [77] } })
    expect(bucketsRetired(two, "NORMAL", 2)).toBeUndefined()
    expect(bucketsRetired(two, "NORMAL", 0)).toBeUndefined()
    expect(bucketsRetired(two, "LOW", 1)).toBeUndefined()
  })
})

test("S006 reorder refuses a priority that is none", () => {
  expect(Result.getOrThrow(reorder(["LOW", 1], ["high", 2]))).toEqual([2, 1])
  expect(outcome(reorder(["LOW", 1], ["urgent", 2]))).toMatch(/^invalid-input: priority/)
})

describe("S060 configuration by URI", () => {
  const table: ReadonlyArray<readonly [string, Readonly<Record<string, unknown>>, Readonly<Record<string, unknown>>]> =
    [
      [
        "redis://u:p@h:7000/?ns=a&ns=b",
        { port: 5, x: 1 },
        { driver: "redis", username: "u", password: "p", host: "h", port: 5, ns: "b", x: 1 },
      ],
      ["redis://h/path#fragment", {}, { driver: "redis", host: "h" }],
      ["redis://h:0/", {}, { driver: "redis", host: "h", port: 0 }],
      ["redis://u%40x:p%2Fq@h/", {}, { driver: "redis", username: "u@x", password: "p/q", host: "h" }],
      ["redis://%zz@h/", {}, { driver: "redis", username: "%zz", host: "h" }],
      ["nats", { host: "h" }, { driver: "nats", host: "h" }],
    ]
  test.each(table)("%s", (text, explicit, expected) => {
    expect(Result.getOrThrow(boardConfiguration(text, explicit))).toEqual(expected)
  })
  test("what is neither", () => expect(outcome(boardConfiguration("no such//"))).toMatch(/^invalid-input: board/))
})
