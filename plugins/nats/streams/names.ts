/**
 * Names on the server: streams, subjects, consumers. Pure, and reversible: every queue and id, whatever its characters,
 * is read back from a subject as it was.
 *
 * ```
 * <ns>_queue   <ns>.j.<queue>.<band>.<part>.<flag>.<id>   a task that is due
 *              <ns>.s.<queue>.<band>.<part>.<flag>.<id>   a task that is not; the server moves it to its j subject
 * <ns>_state   <ns>.t.<class>.<id>.<queue>                what is stored about a job
 * <ns>_run     <ns>.r.<id>                                what a running job last said
 *              <ns>.l.<fence>                             a delivery that another thread extends
 * <ns>_store   <ns>.k.<piece>[.<piece>…]                  a value of the store
 *              <ns>.ev.t.… <ns>.ev.r.… <ns>.ev.k.…        the same, republished to whoever watches
 *              <ns>.news.<topic>                          broadcast
 * ```
 *
 * `part` is `_`; queues that keep order by key will have one consumer per partition there. `flag` says whether anything
 * but the task may be stored about the job: `n` (nothing) or `k` (a record is known).
 */
import { createHash } from "node:crypto"
import { FRONT_LEVEL } from "../../../runtime/protocol/message.ts"
import type { JobRecord } from "../../../runtime/protocol/record.ts"
import { isTerminal, type State } from "../../../runtime/protocol/state.ts"

const PLAIN = /^[A-Za-z0-9_-]+$/

/** Any text as one token of a subject. ASCII only; the empty text has a token too. */
export const escapeToken = (text: string): string => {
  if (PLAIN.test(text)) return text
  if (text === "") return "%"
  let token = ""
  for (const byte of encoder.encode(text)) {
    token += isPlainByte(byte) ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, "0")}`
  }
  return token
}

/** The text of a token. What {@link escapeToken} did not write is returned as it is. */
export const unescapeToken = (token: string): string => {
  if (!token.includes("%")) return token
  if (token === "%") return ""
  try {
    return decodeURIComponent(token)
  } catch {
    return token
  }
}

const encoder = new TextEncoder()

const isPlainByte = (byte: number): boolean =>
  (byte >= 97 && byte <= 122) || (byte >= 65 && byte <= 90) || (byte >= 48 && byte <= 57) || byte === 45 || byte === 95

/** What the class token of a record's subject says: its state once it is over, `live` before, `gone` for tombstones. */
export type Class = "live" | "dead" | "gone" | Extract<State, "succeeded" | "failed" | "cancelled" | "expired">

export const classOf = (record: Pick<JobRecord, "state" | "dead" | "tombstone">): Class => {
  if (record.tombstone) return "gone"
  const { state } = record
  if (state === "failed") return record.dead === undefined ? "failed" : "dead"
  return state === "succeeded" || state === "cancelled" || state === "expired" ? state : "live"
}

/** The classes in which records of these states are. */
export const classesOf = (states: ReadonlyArray<State>): ReadonlyArray<Class> => {
  const classes = new Set<Class>()
  for (const state of states) {
    if (!isTerminal(state)) classes.add("live")
    else classes.add(classOf({ state }))
    if (state === "failed") classes.add("dead")
  }
  return [...classes]
}

/** Where a waiting task is. */
export interface TaskAddress {
  readonly scheduled: boolean
  readonly queue: string
  /** Lowest level of its band. */
  readonly band: number
  /** Nothing but the task itself may be stored about the job. */
  readonly unrecorded: boolean
  readonly idToken: string
}

/** Priority levels as bands: each band is named by its lowest level, the front is a band of its own. */
export class Bands {
  /** How many bands the priorities 0–9 fall into. */
  readonly count: number
  /** Lowest level of each band, highest band first, the front before all. */
  readonly levels: ReadonlyArray<number>
  readonly #byLevel: ReadonlyArray<number>
  readonly #places: ReadonlyArray<number>

  constructor(count: number) {
    this.count = count
    const lowest = (level: number): number => {
      const band = Math.floor((level * count) / 10)
      return Math.ceil((band * 10) / count)
    }
    this.#byLevel = Array.from({ length: FRONT_LEVEL + 1 }, (_, level) =>
      level === FRONT_LEVEL ? level : lowest(level),
    )
    this.levels = [...new Set(this.#byLevel)].sort((a, b) => b - a)
    this.#places = this.#byLevel.map((level) => this.levels.indexOf(level))
  }

  /** The band of a level, which must be 0–9 or the front. */
  of(level: number): number {
    return this.#byLevel[level] ?? 0
  }

  /** The place of a level's band in {@link levels}. */
  place(level: number): number {
    return this.#places[level] ?? -1
  }
}

const UNKEYED = "_"

/** The names of one namespace. */
export class Names {
  readonly namespace: string
  readonly queueStream: string
  readonly stateStream: string
  readonly runStream: string
  readonly storeStream: string

  constructor(namespace: string) {
    this.namespace = namespace
    this.queueStream = `${namespace}_queue`
    this.stateStream = `${namespace}_state`
    this.runStream = `${namespace}_run`
    this.storeStream = `${namespace}_store`
  }

  task(kind: "j" | "s", queue: string, band: number, unrecorded: boolean, id: string): string {
    const flag = unrecorded ? "n" : "k"
    return `${this.namespace}.${kind}.${escapeToken(queue)}.${band}.${UNKEYED}.${flag}.${escapeToken(id)}`
  }

  /** Reads a subject of the queue stream. */
  parseTask(subject: string): TaskAddress | undefined {
    const [, kind, queue, band, , flag, idToken] = subject.slice(this.namespace.length).split(".")
    if (queue === undefined || band === undefined || idToken === undefined) return undefined
    return {
      scheduled: kind === "s",
      queue: unescapeToken(queue),
      band: Number(band),
      unrecorded: flag === "n",
      idToken,
    }
  }

  /** All tasks of one job, due or not, in any queue. */
  tasksOf(idToken: string): string {
    return `${this.namespace}.*.*.*.*.*.${idToken}`
  }

  tasksIn(kind: "j" | "s", queue: string | undefined): string {
    return `${this.namespace}.${kind}.${queue === undefined ? "" : `${escapeToken(queue)}.`}>`
  }

  /** What the consumer of one band delivers. */
  band(queue: string, band: number): string {
    return `${this.namespace}.j.${escapeToken(queue)}.${band}.${UNKEYED}.*.*`
  }

  /** Name of the consumer of one band. Names of files on the server are limited to 255 bytes. */
  consumer(queue: string, band: number): string {
    const token = escapeToken(queue)
    const short = token.length <= 200 ? token : `=${createHash("sha256").update(token).digest("hex").slice(0, 40)}`
    return `${short}-${band}`
  }

  record(record: Pick<JobRecord, "id" | "queue" | "state" | "dead" | "tombstone">): string {
    return `${this.namespace}.t.${classOf(record)}.${escapeToken(record.id)}.${escapeToken(record.queue)}`
  }

  /** All records of one job; at most one is current. */
  recordsOf(idToken: string): string {
    return `${this.namespace}.t.*.${idToken}.*`
  }

  recordsIn(kind: Class | "*", queue: string | undefined): string {
    return `${this.namespace}.t.${kind}.*.${queue === undefined ? "*" : escapeToken(queue)}`
  }

  run(idToken: string): string {
    return `${this.namespace}.r.${idToken}`
  }

  lease(fence: string): string {
    return `${this.namespace}.l.${fence}`
  }

  value(key: string): string {
    return `${this.namespace}.k.${piecesOf(key).map(escapeToken).join(".")}`
  }

  /** A filter that matches at least the keys with a prefix; `exact`: no others. */
  values(prefix: string): { readonly filter: string; readonly exact: boolean } {
    const pieces = piecesOf(prefix)
    // Of what the last separator leaves over, only the beginning is known.
    const rest = pieces.pop()
    return { filter: [`${this.namespace}.k`, ...pieces.map(escapeToken), ">"].join("."), exact: rest === "" }
  }

  key(subject: string): string {
    const at = subject.indexOf(".k.", this.namespace.length)
    return subject
      .slice(at + 3)
      .split(".")
      .map(unescapeToken)
      .join("")
  }

  /** Where what is stored under a subject is republished. */
  event(kind: "t" | "r" | "k"): string {
    return `${this.namespace}.ev.${kind}.>`
  }

  topic(topic: string): string {
    return `${this.namespace}.news.${escapeToken(topic)}`
  }
}

/** Deeper subjects cost the server more; keys with more separators keep the rest in one piece. */
const MAX_PIECES = 8

/** A key cut after each separator, so that prefixes are filters of the server. The last piece may be empty. */
const piecesOf = (key: string): Array<string> => {
  const pieces = key.split(/(?<=[/:.])/)
  if (/[/:.]$/.test(key)) pieces.push("")
  return pieces.length <= MAX_PIECES
    ? pieces
    : [...pieces.slice(0, MAX_PIECES - 1), pieces.slice(MAX_PIECES - 1).join("")]
}
