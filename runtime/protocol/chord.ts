/**
 * Chords: a job (the body) that waits for the members of a group and gets their results. The members' outcomes are kept in
 * parts of {@link MEMBERS_PER_PART}, so that no entry grows with the group and few processes write the same one. Each member
 * has a place of its own in its part, so that an outcome that is noted twice counts once. Pure.
 */
import * as Result from "effect/Result"
import { decodeBody, encodeBody } from "./body.ts"
import { isObject } from "./guards.ts"
import type { ChordHeader } from "./headers.ts"
import type { Message } from "./message.ts"
import type { JobRecord } from "./record.ts"
import { decoder, encoder } from "./text.ts"

export const MEMBERS_PER_PART = 100

/**
 * Most bytes of JSON that the results of all members may have together. With more, the body gets references to the members
 * instead, whose results it can ask for.
 */
export const MAX_RESULTS = 256 * 1024

/** How a member has ended. `gone`: it was deleted, or nothing is kept of it. */
export interface MemberEnd {
  readonly state: "succeeded" | "failed" | "cancelled" | "expired" | "gone"
  /** Of a success, in its JSON form. */
  readonly result?: unknown
  /** The result is left out, because the results of its part are too large. */
  readonly large?: true
}

/** Some members of a chord in their order, and how each of them has ended. */
export interface ChordPart {
  /** Number of parts of the chord. */
  readonly parts: number
  /** Each member's jobs in the order in which they run: one, or the links of a chain, of which the last one counts. */
  readonly ids: ReadonlyArray<ReadonlyArray<string>>
  /** `null`: not yet. */
  readonly ends: ReadonlyArray<MemberEnd | null>
}

/** A member of a chord: its body, and the place of the member in the group, from 0. */
export interface MemberOutcome {
  readonly of: string
  readonly at: number
  readonly end: MemberEnd
}

/** Number of parts of a chord with so many members. */
export const partsIn = (members: number): number => Math.ceil(members / MEMBERS_PER_PART)

/** The parts of a chord whose members have not ended. */
export const partsOf = (members: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<ChordPart> => {
  const parts = partsIn(members.length)
  return Array.from({ length: parts }, (_, n) => {
    const ids = members.slice(n * MEMBERS_PER_PART, (n + 1) * MEMBERS_PER_PART)
    return { parts, ids, ends: ids.map(() => null) }
  })
}

/** What is asked of the record of a member. */
type MemberRecord = Pick<JobRecord, "state" | "result" | "tombstone" | "deleted" | "endedAt">

/** How a job has ended; `undefined`: it has not. */
const endOf = ({ state, result, tombstone, deleted }: MemberRecord): MemberEnd | undefined => {
  if (deleted) return { state: "gone" }
  switch (state) {
    case "succeeded":
      return tombstone ? { state: "gone" } : { state, result: result ?? null }
    case "failed":
    case "cancelled":
    case "expired":
      return { state }
    default:
      return undefined
  }
}

/**
 * What the record of an ended job means for the chord that it is a member of. `undefined`: nothing, because it is no member, has
 * not ended, or is a link of a chain that goes on.
 */
export const memberOutcomeOf = (record: MemberRecord & Pick<JobRecord, "member">): MemberOutcome | undefined => {
  const { member, state } = record
  if (member === undefined || (member.more && state === "succeeded")) return undefined
  const end = endOf(record)
  return end === undefined ? undefined : { of: member.of, at: member.at, end }
}

/**
 * How a member has ended, by the records of its jobs; `undefined`: it has not. A job without a record may be about to be
 * submitted if what comes before it (the submission, `at`, or the link before) happened after `since`.
 */
export const memberEndOf = (
  ids: ReadonlyArray<string>,
  records: ReadonlyMap<string, MemberRecord>,
  at: number,
  since: number,
): MemberEnd | undefined => {
  const last = ids.findLastIndex((id) => records.has(id))
  const record = records.get(ids[last] ?? "")
  if (record === undefined) return at < since ? { state: "gone" } : undefined
  // The next link of a chain is stored with the success of the one before.
  if (record.state === "succeeded" && last < ids.length - 1)
    return (record.endedAt ?? since) < since ? { state: "gone" } : undefined
  return endOf(record)
}

/**
 * The part with these outcomes; `undefined` where it has them already. A success stays: its member has run, and what
 * happens to its record later does not matter to the body.
 */
export const withOutcomes = (part: ChordPart, outcomes: ReadonlyArray<MemberOutcome>): ChordPart | undefined => {
  const ends = [...part.ends]
  let size = sizeOf(ends)
  let changed = false
  for (const { at, end } of outcomes) {
    const place = at % MEMBERS_PER_PART
    const before = ends[place]
    if (before === undefined || before?.state === "succeeded" || before?.state === end.state) continue
    const kept = "result" in end ? bounded(end, size) : end
    size += sizeOf([kept])
    ends[place] = kept
    changed = true
  }
  return changed ? { ...part, ends } : undefined
}

const bounded = (end: MemberEnd, size: number): MemberEnd =>
  size + sizeOf([end]) <= MAX_RESULTS ? end : { state: end.state, large: true }

const sizeOf = (ends: ReadonlyArray<MemberEnd | null>): number =>
  ends.reduce((sum, end) => sum + (end?.result === undefined ? 0 : Buffer.byteLength(JSON.stringify(end.result))), 0)

/**
 * The part in which members that have not succeeded may end anew, or only the one at this place in the group; `undefined` where
 * there are none.
 */
export const reopened = (part: ChordPart, at?: number): ChordPart | undefined => {
  const only = at === undefined ? undefined : at % MEMBERS_PER_PART
  const isOver = (end: MemberEnd | null, place: number): boolean =>
    end !== null && end.state !== "succeeded" && (only === undefined || place === only)
  return part.ends.some(isOver)
    ? { ...part, ends: part.ends.map((end, place) => (isOver(end, place) ? null : end)) }
    : undefined
}

export const isComplete = ({ ends }: ChordPart): boolean => !ends.includes(null)

/** What the body gets in place of a result: the member failed, or the results are too large. */
export interface MemberReference {
  /** Id of the member's job: of a chain that of its last link. */
  readonly job: string
  readonly state: MemberEnd["state"]
}

/** What becomes of the body once all members have ended. */
export type HandOver =
  /** The results in the order of the group. */
  | { readonly kind: "results"; readonly results: ReadonlyArray<unknown> }
  | { readonly kind: "failed"; readonly members: ReadonlyArray<MemberReference> }

export const handOverOf = (parts: ReadonlyArray<ChordPart>, { allowFailure }: ChordHeader): HandOver => {
  const members = parts.flatMap(({ ids, ends }) =>
    ends.map((end, at) => ({ job: ids[at]?.at(-1) ?? "", end: end ?? { state: "gone" as const } })),
  )
  const failed = members.flatMap(({ job, end }) => (end.state === "succeeded" ? [] : [{ job, state: end.state }]))
  if (failed.length > 0 && !allowFailure) return { kind: "failed", members: failed }
  const ends = members.map(({ end }) => end)
  const isLarge = ends.some(({ large }) => large === true) || sizeOf(ends) > MAX_RESULTS
  const results = members.map(({ job, end }) =>
    end.state === "succeeded" && !isLarge ? (end.result ?? null) : { job, state: end.state },
  )
  return { kind: "results", results }
}

/**
 * The task of the body with the results before its own arguments. One that is large by that is compressed: references to ten
 * thousand members are more than some transports take as they are. Fails where its own arguments cannot be read.
 */
export const withResults = (message: Message, results: ReadonlyArray<unknown>): Result.Result<Message, string> => {
  const body = decodeBody(message)
  if (Result.isFailure(body)) return Result.fail(body.failure.message)
  const { compression: asked } = message.headers
  const encode = (compression: string | undefined) =>
    encodeBody(
      { ...body.success, args: [results, ...body.success.args] },
      { contentType: message.properties.content_type, ...(compression === undefined ? {} : { compression }) },
    )
  const compression = typeof asked === "string" && asked !== "" ? asked : undefined
  const whole = encode(compression)
  const isLarge = Result.isSuccess(whole) && whole.success.bytes.length > MAX_RESULTS
  const encoded = isLarge && compression === undefined ? encode(GZIP) : whole
  if (Result.isFailure(encoded)) return Result.fail(encoded.failure.message)
  const { bytes, compression: used } = encoded.success
  return Result.succeed({
    ...message,
    headers: used === null ? message.headers : { ...message.headers, compression: used },
    body: bytes,
  })
}

/** Read by every worker of Celery as well. */
const GZIP = "application/x-gzip"

export const encodePart = (part: ChordPart): Uint8Array => encoder.encode(JSON.stringify(part))

/** `undefined`: the bytes are no part, for instance because a newer version wrote them. */
export const decodePart = (bytes: Uint8Array): ChordPart | undefined => {
  try {
    const value: unknown = JSON.parse(decoder.decode(bytes))
    return isPart(value) ? value : undefined
  } catch {
    return undefined
  }
}

const isPart = (value: unknown): value is ChordPart =>
  isObject(value) &&
  "parts" in value &&
  typeof value.parts === "number" &&
  "ids" in value &&
  Array.isArray(value.ids) &&
  "ends" in value &&
  Array.isArray(value.ends) &&
  value.ends.length === value.ids.length
