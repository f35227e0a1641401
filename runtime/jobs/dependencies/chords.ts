/**
 * The chords of a board: entries of the store that hold how the members of a chord have ended, until its body starts.
 *
 * `chord/<body>` says that there is a chord, `chord-part/<body>/<n>` holds some of its members. They are written before the
 * body is stored as a deferred job, and that before any member. The process that stores a member's end notes it in the member's
 * part, by compare-and-set; the one that completes a part looks at the others, and where all are complete it releases the body by
 * a compare-and-set on its record. What a process that dies has not done is found by the sweep, from the members' own records.
 */
import { beforeTry, MAX_TRIES } from "../../async/conflicts.ts"
import type { Connection } from "../../connection/connection.ts"
import {
  type ChordPart,
  decodePart,
  encodePart,
  type HandOver,
  handOverOf,
  isComplete,
  MEMBERS_PER_PART,
  type MemberOutcome,
  partsIn,
  partsOf,
  reopened,
  withOutcomes,
  withResults,
} from "../../protocol/chord.ts"
import { handedOver } from "../../protocol/dependencies.ts"
import type { MemberHeader } from "../../protocol/headers.ts"
import type { JobError, JobRecord } from "../../protocol/record.ts"
import { decoder, encoder } from "../../protocol/text.ts"
import type { Decision, Found } from "../../transport/job-store/transport.ts"
import { TransportError } from "../../transport/mod.ts"
import type { Entry, Store } from "../../transport/store.ts"
import { idFrom, keyPart, writeInChunks } from "./edges.ts"
import { failure, isPermanent, refused, unreadable } from "./release.ts"

const CHORD_PREFIX = "chord/"
const chordKey = (body: string): string => CHORD_PREFIX + keyPart(body)
const partKey = (body: string, n: number): string => `chord-part/${keyPart(body)}/${n}`
/** Key of the part that a member is in. */
const partKeyOf = (body: string, at: number): string => partKey(body, Math.floor(at / MEMBERS_PER_PART))

/** Entries that are written, or read, at a time. */
const AT_A_TIME = 20

/** A chord that may be open. */
export interface Chord {
  readonly body: string
  readonly parts: number
  /** When it was submitted, in milliseconds since the epoch. */
  readonly at: number
}

/**
 * Notes a chord before its body is stored. One that is noted already stays as it is, unless its body was deleted: then it is that
 * of an earlier run. Fails as the store does.
 */
export const openChord = async (
  { store, jobs }: Pick<Connection, "store" | "jobs">,
  body: string,
  members: ReadonlyArray<ReadonlyArray<string>>,
  now: number,
): Promise<void> => {
  const parts = partsOf(members)
  const key = chordKey(body)
  const value = encoder.encode(JSON.stringify({ parts: parts.length, at: now }))
  if ((await store.write([{ key, value, expect: "" }])) === "conflict" && (await jobs.find(body))?.record.tombstone) {
    const [earlier] = await store.get([key])
    if (earlier !== undefined) await removeChord(store, chordOf(earlier))
    await store.write([{ key, value, expect: "" }])
  }
  // One by one: on some transports many keys in one write cost more than as many writes.
  for (let from = 0; from < parts.length; from += AT_A_TIME) {
    const some = parts.slice(from, from + AT_A_TIME)
    await Promise.all(
      some.map((part, at) => store.write([{ key: partKey(body, from + at), value: encodePart(part), expect: "" }])),
    )
  }
}

/** Up to `limit` chords, after the one with this body. */
export const listChords = async (
  store: Store,
  limit: number,
  after: string | undefined,
): Promise<ReadonlyArray<Chord>> => {
  const from = after === undefined ? {} : { after: chordKey(after) }
  return (await store.list({ prefix: CHORD_PREFIX, limit, ...from })).map(chordOf)
}

const chordOf = ({ key, value }: Entry): Chord => {
  const body = idFrom(key.slice(CHORD_PREFIX.length))
  try {
    const { parts, at }: { readonly parts?: unknown; readonly at?: unknown } = JSON.parse(decoder.decode(value))
    return { body, parts: Number(parts) || 0, at: Number(at) || 0 }
  } catch {
    return { body, parts: 0, at: 0 }
  }
}

export const removeChord = (store: Store, { body, parts }: Pick<Chord, "body" | "parts">): Promise<void> => {
  const keys = [...Array.from({ length: parts }, (_, n) => partKey(body, n)), chordKey(body)]
  // The entry of the chord goes last, so that the sweep finds what is left.
  return writeInChunks(
    store,
    keys.map((key) => ({ key, value: null })),
  )
}

/** Parts `from` to `to` of a chord, without those that are gone. */
export const readParts = async (
  store: Store,
  body: string,
  from: number,
  to: number,
): Promise<ReadonlyArray<{ readonly n: number; readonly part: ChordPart }>> => {
  const found = await store.get(Array.from({ length: Math.max(0, to - from) }, (_, at) => partKey(body, from + at)))
  return found.flatMap((entry, at) => {
    const part = entry && decodePart(entry.value)
    return part === undefined ? [] : [{ n: from + at, part }]
  })
}

/**
 * Changes a part by compare-and-set. Resolves with the part as it is then; `undefined` where there is none. Fails as the store
 * does.
 */
const changePart = async (
  store: Store,
  key: string,
  change: (part: ChordPart) => ChordPart | undefined,
): Promise<ChordPart | undefined> => {
  for (let tried = 0; tried < MAX_TRIES; tried++) {
    await beforeTry(tried)
    const [entry] = await store.get([key])
    const part = entry && decodePart(entry.value)
    if (entry === undefined || part === undefined) return undefined
    const next = change(part)
    if (next === undefined) return part
    const written = await store.write([{ key, value: encodePart(next), expect: entry.revision }])
    if (written !== "conflict") return next
  }
  throw new TransportError("unavailable", "the members of the chord end too quickly; try again")
}

/**
 * Notes how members of chords have ended, and releases or fails the bodies that waited for the last of them. Resolves with the
 * records of the bodies that have failed. Fails as the transport does; what was not done the sweep does.
 */
export const countMembers = async (
  connection: Connection,
  outcomes: ReadonlyArray<MemberOutcome>,
): Promise<ReadonlyArray<JobRecord>> => {
  const byPart = Map.groupBy(outcomes, ({ of, at }) => partKeyOf(of, at))
  const all = [...byPart]
  /** Number of parts by body, where a part is complete. */
  const complete = new Map<string, number>()
  for (let from = 0; from < all.length; from += AT_A_TIME) {
    await Promise.all(
      all.slice(from, from + AT_A_TIME).map(async ([key, some]) => {
        const part = await changePart(connection.store, key, (found) => withOutcomes(found, some))
        const [first] = some
        if (part !== undefined && first !== undefined && isComplete(part)) complete.set(first.of, part.parts)
      }),
    )
  }
  const failed: Array<JobRecord> = []
  for (const [body, parts] of complete) {
    const record = await settleChord(connection, { body, parts })
    if (record !== undefined) failed.push(record)
  }
  return failed
}

/** All parts in their order, or `undefined` while a member has not ended. The last ones are read first: they end last. */
const completeParts = async (
  store: Store,
  { body, parts }: Pick<Chord, "body" | "parts">,
): Promise<ReadonlyArray<ChordPart> | undefined> => {
  let all: Array<ChordPart> = []
  for (let to = parts; to > 0; to -= AT_A_TIME) {
    const from = Math.max(0, to - AT_A_TIME)
    const some = (await readParts(store, body, from, to)).map(({ part }) => part)
    if (some.length < to - from || !some.every(isComplete)) return undefined
    all = [...some, ...all]
  }
  return all
}

/**
 * Releases or fails the body of a chord whose members have all ended. Resolves with its record where it has failed. Fails as
 * the transport does.
 */
export const settleChord = async (
  connection: Connection,
  chord: Pick<Chord, "body" | "parts">,
): Promise<JobRecord | undefined> => {
  /** The first time that the transport refuses it, the body fails; the second time without its errbacks. */
  const refusals: Array<TransportError> = []
  for (let tried = 0; tried < MAX_TRIES; tried++) {
    await beforeTry(tried)
    const found = await connection.jobs.find(chord.body)
    // Its body is being submitted this moment, or has started, or ended before its members.
    if (found?.record.state !== "deferred" || !found.record.chord?.waiting) return undefined
    // Read after the body, and again after a conflict: a member that was run again meanwhile is waited for.
    const parts = await completeParts(connection.store, chord)
    if (parts === undefined) return undefined
    const change = changeOf(connection, found, parts, refusals)
    const [answer] = await connection.jobs.decide([change])
    if (answer?.status === "decided") {
      // What is left of a chord that has failed is needed where its body is run again.
      if (change.record.state === "failed") return change.record
      await removeChord(connection.store, chord).catch(() => undefined)
      return undefined
    }
    if (answer?.status !== "failed") continue
    if (!isPermanent(answer.error) || refusals.length > 1) throw answer.error
    refusals.push(answer.error)
  }
  throw new TransportError("unavailable", `job ${chord.body} keeps changing; try again`)
}

const changeOf = (
  { keepFailed }: Connection,
  { record, revision }: Found,
  parts: ReadonlyArray<ChordPart>,
  refusals: ReadonlyArray<TransportError>,
): Decision => {
  const now = Date.now()
  const at = { id: record.id, expect: revision }
  const fail = (error: JobError, bare: boolean): Decision => ({
    ...at,
    ...failure(record, error, now, { keepFailed, bare }),
  })
  const [refusal] = refusals
  if (refusal !== undefined) return fail(refused(refusal), refusals.length > 1)
  const { chord, message } = record
  const over = handOverOf(parts, chord ?? { size: 0 })
  if (over.kind === "failed") return fail(memberFailed(over), false)
  if (message === undefined) return fail(unreadable("its task is not kept"), true)
  const full = chord?.immutable ? undefined : withResults(message, over.results)
  if (full !== undefined && full._tag === "Failure") return fail(unreadable(full.failure), false)
  const next = handedOver(record, full?.success ?? message, now)
  if (next?.kind === "released") return { ...at, record: next.record, post: [next.posting] }
  if (next?.kind === "fewer") return { ...at, record: next.record }
  return fail(unreadable(next?.kind === "invalid" ? next.why.message : "it is not waiting for members"), false)
}

const memberFailed = ({ members }: Extract<HandOver, { kind: "failed" }>): JobError => {
  const [first] = members
  const others = members.length === 1 ? "" : `, and ${members.length - 1} more of its group`
  return {
    name: "MemberFailed",
    message: `job ${first?.job} ${inWords[first?.state ?? "gone"]}${others}; run them again, then this job`,
    reason: "member-failed",
  }
}

const inWords = {
  succeeded: "has succeeded",
  failed: "has failed",
  cancelled: "was cancelled",
  expired: "has expired",
  gone: "was deleted or is no longer kept",
} as const

/** Lets members that have not succeeded end anew, before the body is run again. Fails as the store does. */
export const reopenChord = async (store: Store, body: string, size: number): Promise<void> => {
  const parts = partsIn(size)
  for (let from = 0; from < parts; from += AT_A_TIME) {
    const some = Array.from({ length: Math.min(AT_A_TIME, parts - from) }, (_, at) => from + at)
    await Promise.all(some.map((n) => changePart(store, partKey(body, n), (part) => reopened(part))))
  }
}

/** Lets a member that has not succeeded end anew, because it runs again. Fails as the store does. */
export const reopenMember = async (store: Store, { of, at }: MemberHeader): Promise<void> => {
  await changePart(store, partKeyOf(of, at), (part) => reopened(part, at))
}
