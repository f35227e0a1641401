/**
 * Job boards, from which a worker claims the job it wants: what a posted job is, and what claiming, consuming, abandoning,
 * trashing and extending make of it. Pure: the clock of the store comes in as `now`.
 *
 * A job is one entry of the store. Its state is never stored: without an entry it is complete, with a claim that has not
 * lapsed it is claimed, else unclaimed.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { BOARD_NAME_RULE, isBoardName } from "./board-name.ts"
import { isMap } from "./guards.ts"
import { byteLength } from "./text.ts"

/** The priorities, highest first. */
export const BOARD_PRIORITIES = ["VERY_HIGH", "HIGH", "NORMAL", "LOW", "VERY_LOW"] as const
export type BoardPriority = (typeof BOARD_PRIORITIES)[number]

export const BOARD_STATES = ["UNCLAIMED", "CLAIMED", "COMPLETE"] as const
export type BoardState = (typeof BOARD_STATES)[number]

/** Why an operation on a board is refused. */
export interface BoardRefusal {
  readonly _tag: "BoardRefusal"
  readonly code: "invalid-input" | "not-found" | "unclaimable" | "not-owner"
  readonly message: string
  readonly field?: string
}

const refusal = (code: BoardRefusal["code"], message: string): Result.Result<never, BoardRefusal> =>
  Result.fail({ _tag: "BoardRefusal", code, message })

const invalid = (field: string, why: string): Result.Result<never, BoardRefusal> =>
  Result.fail({ _tag: "BoardRefusal", code: "invalid-input", message: `${field}: ${why}`, field })

// ── What callers give ────────────────────────────────────────────────────────────────────────────────────────────────

export const checkBoardName = (name: unknown): Result.Result<string, BoardRefusal> =>
  isBoardName(name) ? Result.succeed(name) : invalid("board", BOARD_NAME_RULE)

const MAX_OWNER_BYTES = 255

/** Checks the owner that claims, consumes, abandons or trashes a job. */
export const checkOwner = (owner: unknown): Result.Result<string, BoardRefusal> => {
  // The message is that of the schema of HTTP bodies.
  if (typeof owner !== "string") return invalid("owner", owner === undefined ? "is missing" : "must be text")
  // A character has at most three bytes, so the bytes of a short name need not be counted.
  const isShort = owner.length > 0 && (owner.length * 3 <= MAX_OWNER_BYTES || byteLength(owner) <= MAX_OWNER_BYTES)
  // Control characters would take six bytes each in the entry, whose size is bounded.
  return isShort && owner.isWellFormed() && !/\p{Cc}/u.test(owner)
    ? Result.succeed(owner)
    : invalid("owner", `must be text of 1 to ${MAX_OWNER_BYTES} bytes without control characters`)
}

/** A priority by its name, in upper or lower case. */
export const parsePriority = (given: unknown): Result.Result<BoardPriority, BoardRefusal> => {
  const name = typeof given === "string" ? given.toUpperCase() : undefined
  const found = BOARD_PRIORITIES.find((each) => each === name)
  return found === undefined
    ? invalid("priority", `must be one of ${BOARD_PRIORITIES.join(", ")}`)
    : Result.succeed(found)
}

/** The values, those with the highest priority first; values of one priority stay in their order. */
export const reorder = <A>(
  ...pairs: ReadonlyArray<readonly [priority: string, value: A]>
): Result.Result<ReadonlyArray<A>, BoardRefusal> => {
  const ranked: Array<{ readonly rank: number; readonly value: A }> = []
  for (const [given, value] of pairs) {
    const priority = parsePriority(given)
    if (Result.isFailure(priority)) return Result.fail(priority.failure)
    ranked.push({ rank: BOARD_PRIORITIES.indexOf(priority.success), value })
  }
  return Result.succeed(ranked.sort((a, b) => a.rank - b.rank).map(({ value }) => value))
}

// ── The entry of a job ───────────────────────────────────────────────────────────────────────────────────────────────

const STEPS = ["posted", "claimed", "lapsed", "taken-over", "abandoned", "trashed", "restored", "consumed"] as const

/** What happened to a job: `taken-over` is a claim of a job whose earlier claim has lapsed. */
export interface BoardStep {
  /** Milliseconds since the epoch, by the clock of the store. */
  readonly at: number
  readonly step: (typeof STEPS)[number]
  readonly owner?: string
}

/** Most steps that are kept: the posting, and the newest ones. */
export const STORY_LENGTH = 20

export interface StoredClaim {
  readonly owner: string
  /**
   * Rises with every claim of the job, so that an owner that has lost its claim is not taken for a later owner of the
   * same name.
   */
  readonly number: number
  readonly at: number
  /** When the claim lapses, by the clock of the store; `null`: never. */
  readonly until: number | null
  /** The claim that this one has taken over, as long as what its owner has left is being rolled back. */
  readonly rollsBack?: StoredClaim
}

export interface BoardRecord {
  readonly id: string
  readonly name: string
  readonly priority: BoardPriority
  readonly details: Readonly<Record<string, unknown>>
  /** Where the application keeps what belongs to the job. */
  readonly book?: { readonly name: string; readonly uuid: string }
  readonly createdAt: number
  readonly modifiedAt: number
  /** The revision that the entry had before its first rewrite; absent until then, since the entry has that revision. */
  readonly sequence?: number
  /** How often the job was claimed. */
  readonly claims: number
  /** The last claim, unless it was abandoned. It may have lapsed. */
  readonly claim?: StoredClaim
  readonly story: ReadonlyArray<BoardStep>
}

const isNumber = (value: unknown): value is number => typeof value === "number"
const isText = (value: unknown): value is string => typeof value === "string"
const isOr = (value: unknown, is: (value: unknown) => boolean): boolean => value === undefined || is(value)

const isStep = (value: unknown): boolean =>
  isMap(value) && isNumber(value["at"]) && STEPS.some((each) => each === value["step"]) && isOr(value["owner"], isText)

const isClaim = (value: unknown): boolean =>
  isMap(value) &&
  isText(value["owner"]) &&
  isNumber(value["number"]) &&
  isNumber(value["at"]) &&
  (value["until"] === null || isNumber(value["until"])) &&
  isOr(value["rollsBack"], isClaim)

/** Whether a value is the entry of a job. By hand, since a schema takes ten times as long for the entries of a whole bucket. */
const isRecord = (value: unknown): value is BoardRecord =>
  isMap(value) &&
  isText(value["id"]) &&
  isText(value["name"]) &&
  BOARD_PRIORITIES.some((each) => each === value["priority"]) &&
  isMap(value["details"]) &&
  isOr(value["book"], (book) => isMap(book) && isText(book["name"]) && isText(book["uuid"])) &&
  isNumber(value["createdAt"]) &&
  isNumber(value["modifiedAt"]) &&
  isOr(value["sequence"], isNumber) &&
  isNumber(value["claims"]) &&
  isOr(value["claim"], isClaim) &&
  Array.isArray(value["story"]) &&
  value["story"].every(isStep)

/** The entry of a job as it was stored; `undefined` for what is none. */
export const parseBoardRecord = (text: string): BoardRecord | undefined => {
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** What a change of an entry may add to it at most, in bytes: a posting is accepted only if that still fits. */
export const BOARD_RESERVE_BYTES = (STORY_LENGTH + 1) * (2 * MAX_OWNER_BYTES + 80) + 1_024

export const posted = (
  id: string,
  job: Pick<BoardRecord, "name" | "priority" | "details" | "book">,
  now: number,
): BoardRecord => ({ id, ...job, createdAt: now, modifiedAt: now, claims: 0, story: [{ at: now, step: "posted" }] })

/** The fields of an entry that change when steps are added to its story. Neither its times nor the order of its steps go back. */
const withSteps = (
  record: BoardRecord,
  steps: ReadonlyArray<BoardStep>,
  now: number,
): Pick<BoardRecord, "modifiedAt" | "story"> => {
  const story = [...record.story, ...steps]
  if (story.length > STORY_LENGTH) story.splice(1, story.length - STORY_LENGTH)
  return { modifiedAt: Math.max(record.modifiedAt, now), story }
}

/** The claim that holds at this time. */
export const liveClaim = (record: BoardRecord | undefined, now: number): StoredClaim | undefined => {
  const claim = record?.claim
  return claim === undefined || (claim.until !== null && claim.until <= now) ? undefined : claim
}

export const boardStateOf = (record: BoardRecord | undefined, now: number): BoardState => {
  if (record === undefined) return "COMPLETE"
  return liveClaim(record, now) === undefined ? "UNCLAIMED" : "CLAIMED"
}

/** The step that the claim has lapsed, unless the story has it: a takeover that failed gives the claim back. */
const lapse = ({ claim, story }: BoardRecord, now: number): ReadonlyArray<BoardStep> => {
  if (claim === undefined || claim.until === null || claim.until > now) return []
  const { owner, until: at } = claim
  const isTold = story.some((each) => each.step === "lapsed" && each.at === at && each.owner === owner)
  return isTold ? [] : [{ at, step: "lapsed", owner }]
}

/** The story up to now: a claim that has lapsed by now is in it. */
export const storyOf = (record: BoardRecord, now: number): ReadonlyArray<BoardStep> => {
  const lapsed = lapse(record, now)
  return lapsed.length === 0 ? record.story : withSteps(record, lapsed, now).story
}

/** A claim that is over, and how it ended. */
export interface EarlierClaim {
  readonly owner: string
  readonly at: number
  readonly ended: "lapsed" | "abandoned" | "trashed"
  readonly endedAt: number
}

/** The claims of a story that are over, oldest first, as far as it is kept. */
export const earlierClaims = (story: ReadonlyArray<BoardStep>): ReadonlyArray<EarlierClaim> => {
  const ended: Array<EarlierClaim> = []
  let begun: BoardStep | undefined
  for (const each of story) {
    const { at, step, owner = "" } = each
    if (step === "claimed" || step === "taken-over") begun = each
    else if (step === "lapsed" || step === "abandoned" || step === "trashed")
      ended.push({ owner, at: begun?.owner === owner ? begun.at : at, ended: step, endedAt: at })
  }
  return ended
}

// ── Rules ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const nameOf = (id: string): string => `job ${id}`

const gone = (id: string): Result.Result<never, BoardRefusal> =>
  refusal("not-found", `${nameOf(id)} is not on the board: it was consumed or trashed, or was never posted`)

export interface ClaimRequest {
  readonly id: string
  readonly owner: string
  /** How long the claim holds; `null`: until it is given up. */
  readonly expiryMs: number | null
  /** How long after a claim has lapsed the job cannot be claimed. */
  readonly reclaimAfterMs: number
  /** Whether the claimer rolls back what an owner has left that has lost the job. */
  readonly rollsBack?: boolean
}

export const claimed = (
  record: BoardRecord | undefined,
  { id, owner, expiryMs, reclaimAfterMs, rollsBack = false }: ClaimRequest,
  now: number,
): Result.Result<BoardRecord & { readonly claim: StoredClaim }, BoardRefusal> => {
  if (record === undefined) return gone(id)
  const held = liveClaim(record, now)
  if (held !== undefined) return refusal("unclaimable", `${nameOf(id)} is claimed by ${JSON.stringify(held.owner)}`)
  const lost = record.claim
  const free = (lost?.until ?? 0) + reclaimAfterMs
  if (lost !== undefined && free > now) {
    const why = `${JSON.stringify(lost.owner)} lost it ${(now - (lost.until ?? now)) / 1000} s ago`
    return refusal("unclaimable", `${nameOf(id)} can be claimed again in ${(free - now) / 1000} s: ${why}`)
  }
  const step = lost === undefined ? "claimed" : "taken-over"
  const number = record.claims + 1
  const loss = rollsBack ? lossOf(lost) : undefined
  const until = expiryMs === null ? null : now + expiryMs
  const claim = { owner, number, at: now, until, ...(loss === undefined ? {} : { rollsBack: loss }) }
  const { modifiedAt, story } = withSteps(record, [...lapse(record, now), { at: now, step, owner }], now)
  return Result.succeed({ ...record, modifiedAt, story, claims: number, claim })
}

export interface OwnerRequest {
  readonly id: string
  readonly owner: string
  /** The number of the claim: an earlier claim of an owner of the same name is refused. Absent: any claim of the owner. */
  readonly claim?: number
}

/** No claim of the job holds. */
export const notClaimed = (id: string): Result.Result<never, BoardRefusal> =>
  refusal("not-found", `${nameOf(id)} is not claimed: only its owner can do that`)

const isOf = (held: StoredClaim, { owner, claim }: Omit<OwnerRequest, "id">): boolean =>
  held.owner === owner && (claim === undefined || held.number === claim)

const notOwner = (id: string, held: StoredClaim, { owner, claim = 0 }: Omit<OwnerRequest, "id">) => {
  if (held.owner !== owner)
    return refusal(
      "not-owner",
      `${nameOf(id)} is claimed by ${JSON.stringify(held.owner)}, not by ${JSON.stringify(owner)}`,
    )
  return refusal(
    "not-owner",
    claim > held.number
      ? `${nameOf(id)} has no claim ${claim}: the last claim is ${held.number}`
      : `${nameOf(id)} was claimed again by ${JSON.stringify(owner)} since then: this claim has ended`,
  )
}

/**
 * The claim that is to be rolled back after a claim has lapsed: that claim itself, or the one that it was still rolling back when its
 * owner was lost.
 */
const lossOf = (lapsed: StoredClaim | undefined): StoredClaim | undefined => lapsed?.rollsBack ?? lapsed

/** The lapsed claim that is rolled back before this claim is handed over; `undefined` where there is none. */
export const lostBefore = ({ rollsBack, at }: StoredClaim): EarlierClaim | undefined =>
  rollsBack && { owner: rollsBack.owner, at: rollsBack.at, ended: "lapsed", endedAt: rollsBack.until ?? at }

/**
 * Ends a claim for its owner. Returns the job as it is afterwards: on the board, in the trash, or consumed. A claim that is abandoned
 * while it rolls back an earlier claim leaves that claim to the next owner.
 */
export const claimEnded = (
  record: BoardRecord | undefined,
  end: "consumed" | "abandoned" | "trashed",
  request: OwnerRequest,
  now: number,
): Result.Result<BoardRecord, BoardRefusal> => {
  const { id, owner } = request
  if (record === undefined) return gone(id)
  const held = liveClaim(record, now)
  if (held === undefined) return notClaimed(id)
  if (!isOf(held, request)) return notOwner(id, held, request)
  const { claim: _claim, ...rest } = record
  const { modifiedAt, story } = withSteps(record, [{ at: now, step: end, owner }], now)
  const ended = { ...rest, modifiedAt, story }
  const isLeft = end === "abandoned" && held.rollsBack !== undefined
  return Result.succeed(isLeft ? { ...ended, claim: held.rollsBack } : ended)
}

/** The claim of an owner that has rolled back what it has taken over. */
export const rolledBack = (
  record: BoardRecord | undefined,
  request: OwnerRequest,
  now: number,
): Result.Result<BoardRecord, BoardRefusal> => {
  if (record === undefined) return gone(request.id)
  const held = liveClaim(record, now)
  if (held === undefined) return notClaimed(request.id)
  if (!isOf(held, request)) return notOwner(request.id, held, request)
  const { rollsBack: _done, ...claim } = held
  return Result.succeed({ ...record, claim })
}

/** The claim with its remaining time set, up or down; `undefined` where no claim holds. */
export const extended = (
  record: BoardRecord | undefined,
  request: { readonly id: string; readonly expiryMs: number | null; readonly owner?: string; readonly claim?: number },
  now: number,
): Result.Result<BoardRecord | undefined, BoardRefusal> => {
  const { id, expiryMs, owner, claim } = request
  const held = liveClaim(record, now)
  if (record === undefined || held === undefined) return Result.succeed(undefined)
  const asked = { owner: owner ?? held.owner, ...(claim === undefined ? {} : { claim }) }
  if (!isOf(held, asked)) return notOwner(id, held, asked)
  const until = expiryMs === null ? null : now + expiryMs
  return Result.succeed({ ...record, ...withSteps(record, [], now), claim: { ...held, until } })
}

export const restored = (record: BoardRecord, now: number): BoardRecord => ({
  ...record,
  ...withSteps(record, [{ at: now, step: "restored" }], now),
})

// ── Where jobs are ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Most jobs in a bucket. A place in a bucket is free again when its job is gone. */
export const BUCKET_SIZE = 256

/** Where the entry of a job is: its id says so. */
export interface Place {
  readonly priority: BoardPriority
  readonly bucket: number
  readonly slot: number
}

const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-([0-4])-([0-9a-z]{1,8})-([0-9a-z]{1,2})$/

export const boardJobId = (uuid: string, { priority, bucket, slot }: Place): string =>
  `${uuid}-${BOARD_PRIORITIES.indexOf(priority)}-${bucket.toString(36)}-${slot.toString(36)}`

export const boardPlaceOf = (id: string): Place | undefined => {
  const [, rank, bucket = "", slot = ""] = ID.exec(id) ?? []
  const priority = BOARD_PRIORITIES[Number(rank)]
  return priority === undefined ? undefined : { priority, bucket: parseInt(bucket, 36), slot: parseInt(slot, 36) }
}

/**
 * The buckets of each priority that has jobs, or had some: numbers from `head` on. `opened` has for each of them a sequence
 * that is lower than those of its jobs: what an earlier bucket has above it comes after some of this one. Jobs are posted
 * into the last one. `restored`: jobs came back from the trash.
 */
export interface BoardLine {
  readonly head: number
  readonly opened: ReadonlyArray<number>
  readonly restored?: boolean
}
export type BoardIndex = Readonly<Record<string, BoardLine>>

const isLine = (value: unknown): value is BoardLine =>
  isMap(value) &&
  isNumber(value["head"]) &&
  Array.isArray(value["opened"]) &&
  value["opened"].every(isNumber) &&
  isOr(value["restored"], (restored) => typeof restored === "boolean")

/** By hand as {@link isRecord}: a board with 200,000 jobs has 800 buckets. */
export const BoardIndex = Schema.declare(
  (value: unknown): value is BoardIndex => isMap(value) && Object.values(value).every(isLine),
)

const FIRST: BoardLine = { head: 0, opened: [0] }

export const lineOf = (index: BoardIndex, priority: BoardPriority): BoardLine | undefined =>
  Object.hasOwn(index, priority) ? index[priority] : undefined

export const tailOf = ({ head, opened }: BoardLine): number => head + opened.length - 1

/** Opens the first bucket, or the one after `full`; `undefined` where another process has done that already. */
export const bucketOpened = (
  index: BoardIndex,
  priority: BoardPriority,
  full: number | undefined,
  newest: number,
): BoardIndex | undefined => {
  const line = lineOf(index, priority)
  if (line === undefined) return { ...index, [priority]: FIRST }
  if (full === undefined || tailOf(line) !== full) return undefined
  return { ...index, [priority]: { ...line, opened: [...line.opened, newest] } }
}

/** Leaves out the buckets below `head`, which are empty and get no more jobs. */
export const bucketsRetired = (index: BoardIndex, priority: BoardPriority, head: number): BoardIndex | undefined => {
  const line = lineOf(index, priority)
  if (line === undefined || head <= line.head || head > tailOf(line)) return undefined
  return { ...index, [priority]: { ...line, head, opened: line.opened.slice(head - line.head) } }
}

export const hasRestored = (index: BoardIndex, priority: BoardPriority): BoardIndex | undefined => {
  const line = lineOf(index, priority) ?? FIRST
  return line.restored ? undefined : { ...index, [priority]: { ...line, restored: true } }
}

// ── Configuration ────────────────────────────────────────────────────────────────────────────────────────────────────

/** What a board is made of: the driver, and its options by name. */
export interface BoardConfiguration {
  readonly driver: string
  readonly [option: string]: unknown
}

/** A part of a URI without its escapes; as it is where an escape is none. */
const unescaped = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const SCHEME = /^[a-z][a-z0-9+.-]*$/i

/**
 * The configuration that a driver's name or a URI stands for: user, password, host and port of the URI, and each parameter
 * of its query, the last one where a name is given twice. What is given explicitly wins.
 */
export const boardConfiguration = (
  text: string,
  explicit: Readonly<Record<string, unknown>> = {},
): Result.Result<BoardConfiguration, BoardRefusal> => {
  if (SCHEME.test(text)) return Result.succeed({ ...explicit, driver: text })
  if (!URL.canParse(text))
    return invalid("board", "must be the name of a driver, or a URI such as nats://localhost?ns=a")
  const url = new URL(text)
  const { username, password, hostname, port } = url
  return Result.succeed({
    ...(username === "" ? {} : { username: unescaped(username) }),
    ...(password === "" ? {} : { password: unescaped(password) }),
    ...(hostname === "" ? {} : { host: hostname }),
    ...(port === "" ? {} : { port: Number(port) }),
    ...Object.fromEntries(url.searchParams),
    ...explicit,
    driver: url.protocol.slice(0, -1),
  })
}
