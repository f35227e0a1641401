/**
 * Names on the server: streams, subjects, consumers. Pure, and reversible: every queue and id, whatever its characters,
 * is read back from a subject as it was.
 *
 * ```
 * <ns>_queue   <ns>.j.<queue>.<band>.<id>    a task that is due
 *              <ns>.s.<queue>.<band>.<id>    a task that is not; the server moves it to its j subject
 * <ns>_state   <ns>.t.<id>                   the record of a job
 *              <ns>.x.<class>.<queue>.<id>   lists the record of a job that did not succeed
 * <ns>_store   <ns>.k.<piece>[.<piece>…]     a value of the store
 *              <ns>.c.<n>                    a value that was only checked
 *              <ns>.ev.t.<id> <ns>.ev.k.…    records and values, republished to whoever listens
 *              <ns>.news.<topic>             broadcast
 *              <ns>.lease.<nonce>            a transport whose deliveries another one has extended
 * ```
 */
import { createHash } from "node:crypto"
import { FRONT_LEVEL } from "../../../runtime/protocol/message.ts"

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

/** Where a waiting task is. */
export interface TaskAddress {
  readonly scheduled: boolean
  readonly queue: string
  /** Lowest level of its band. */
  readonly band: number
  readonly id: string
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

/** The names of one namespace. */
export class Names {
  readonly namespace: string
  readonly queueStream: string
  readonly stateStream: string
  readonly storeStream: string

  constructor(namespace: string) {
    this.namespace = namespace
    this.queueStream = `${namespace}_queue`
    this.stateStream = `${namespace}_state`
    this.storeStream = `${namespace}_store`
  }

  task(kind: "j" | "s", queue: string, band: number, id: string): string {
    return `${this.namespace}.${kind}.${escapeToken(queue)}.${band}.${escapeToken(id)}`
  }

  /** Reads a subject of the queue stream. */
  parseTask(subject: string): TaskAddress | undefined {
    const [, kind, queue, band, id] = subject.slice(this.namespace.length).split(".")
    if (queue === undefined || band === undefined || id === undefined) return undefined
    return { scheduled: kind === "s", queue: unescapeToken(queue), band: Number(band), id: unescapeToken(id) }
  }

  /** All tasks of one job, due or not, in any queue; `*` is either kind, and fits subjects of other streams too. */
  tasksOf(id: string, kind: "j" | "s" | "*" = "*"): string {
    return `${this.namespace}.${kind}.*.*.${escapeToken(id)}`
  }

  tasksIn(kind: "j" | "s", queue: string | undefined): string {
    return `${this.namespace}.${kind}.${queue === undefined ? "" : `${escapeToken(queue)}.`}>`
  }

  /** What the consumer of one band delivers. */
  band(queue: string, band: number): string {
    return `${this.namespace}.j.${escapeToken(queue)}.${band}.*`
  }

  /** Name of the consumer of one band. Names of files on the server are limited to 255 bytes. */
  consumer(queue: string, band: number): string {
    const token = escapeToken(queue)
    const short = token.length <= 200 ? token : `=${createHash("sha256").update(token).digest("hex").slice(0, 40)}`
    return `${short}-${band}`
  }

  record(id: string): string {
    return `${this.namespace}.t.${escapeToken(id)}`
  }

  /** All records. */
  records(): string {
    return `${this.namespace}.t.*`
  }

  /** The entry of a job in a list; `list` is `<class>.<queue>`, the queue as a token. */
  entry(list: string, id: string): string {
    return `${this.namespace}.x.${list}.${escapeToken(id)}`
  }

  /** All entries of a class. */
  entries(kind: string, queue: string | undefined): string {
    return `${this.namespace}.x.${kind}.${queue === undefined ? "*" : escapeToken(queue)}.*`
  }

  /** The id in the subject of a record or of an entry. */
  idIn(subject: string): string {
    return unescapeToken(subject.slice(subject.lastIndexOf(".") + 1))
  }

  lease(nonce: string): string {
    return `${this.namespace}.lease.${nonce}`
  }

  value(key: string): string {
    return `${this.namespace}.k.${piecesOf(key).map(escapeToken).join(".")}`
  }

  /** A filter that matches at least the keys with a prefix. */
  values(prefix: string): string {
    // Of the last piece, only the beginning is known.
    const pieces = piecesOf(prefix).slice(0, -1)
    return [`${this.namespace}.k`, ...pieces.map(escapeToken), ">"].join(".")
  }

  /** How the subjects begin under which changes of the keys with a prefix are told. */
  eventsOf(prefix: string): string {
    const pieces = piecesOf(prefix)
    const last = pieces.pop() ?? ""
    return [`${this.namespace}.ev.k`, ...pieces.map(escapeToken), last === "" ? "" : escapeToken(last)].join(".")
  }

  /** Where a value is checked without being written. */
  check(number: number): string {
    return `${this.namespace}.c.${number}`
  }

  key(subject: string): string {
    const at = subject.indexOf(".k.", this.namespace.length)
    return subject
      .slice(at + 3)
      .split(".")
      .map(unescapeToken)
      .join("")
  }

  /** Where records and values are republished, all of them or one. */
  event(kind: "t" | "k", id?: string): string {
    return `${this.namespace}.ev.${kind}.${id === undefined ? ">" : escapeToken(id)}`
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
