/**
 * Names on the server: streams, subjects, consumers. Pure. Names are reversible: every queue and id, whatever its
 * characters, is read back from a subject as it was.
 *
 * ```
 * <ns>_queue   <ns>.j.<queue>.<band>.<task>.<method>.<share>.<id>
 *                                            a task that is due
 *              <ns>.s.<queue>.<band>.<task>.<method>.<share>.<id>
 *                                            a task that is due later; the server moves it to its j subject
 *              <ns>.j.<queue>.<band>.<id>    where other programs publish tasks; the server moves each to a subject whose
 *                                            task and method are the token of the empty text
 * <ns>_state   <ns>.t.<id>                   the record of a job
 * <ns>_index   <ns>.x.<class>.<queue>.<task>.<method>.<share>.<id>
 *                                            the entry of a record that lists and searches read
 * <ns>_store   <ns>.k.<piece>[.<piece>…]     a value of the store
 *              <ns>.c.<n>                    checks the revision of a value without writing it
 *              <ns>.ev.t.<id> <ns>.ev.k.…    records and values, republished by the server
 *              <ns>.news.<topic>             broadcast
 *              <ns>.lease.<nonce>            tells a transport which of its deliveries another one extended
 * ```
 */
import { createHash } from "node:crypto"
import { FRONT_LEVEL } from "../../../runtime/protocol/message.ts"
import { encoder } from "../../../runtime/protocol/text.ts"
import type { Index } from "../../../runtime/transport/known.ts"

const PLAIN = /^[A-Za-z0-9_-]+$/

/** Escapes a text to one token of a subject. ASCII only; the empty text has a token as well. */
export const escapeToken = (text: string): string => {
  if (PLAIN.test(text)) return text
  if (text === "") return "%"
  let token = ""
  for (const byte of encoder.encode(text)) {
    token += isPlainByte(byte) ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, "0")}`
  }
  return token
}

/** The text of a token. A token that {@link escapeToken} did not write is returned as it is. */
export const unescapeToken = (token: string): string => {
  if (!token.includes("%")) return token
  if (token === "%") return ""
  try {
    return decodeURIComponent(token)
  } catch {
    return token
  }
}

const isPlainByte = (byte: number): boolean =>
  (byte >= 97 && byte <= 122) || (byte >= 65 && byte <= 90) || (byte >= 48 && byte <= 57) || byte === 45 || byte === 95

/** Longest token of a name that is only looked for; the server bounds subjects to 4 KiB. */
const NAME_TOKEN = 200

/** A name in the subject of an entry, or of a task. It is only looked for, so that a long one can be a hash. */
const nameToken = (text: string): string => {
  const token = escapeToken(text)
  return token.length <= NAME_TOKEN ? token : `=${createHash("sha256").update(token).digest("hex").slice(0, 40)}`
}

const nameOrAny = (text: string | undefined): string => (text === undefined ? "*" : nameToken(text))

/** The beginning of an entry's subject: the class and names of the job. */
export const listName = (kind: string, queue: string, task: string, method = ""): string =>
  [kind, ...[queue, task, method].map(nameToken)].join(".")

/** Into how many shares tasks and entries fall, by the ids of their jobs, so that a part of a list can be counted. */
export const SHARES = 64

/** The share of the id with this token, as the server computes it by `partition`: FNV-1a of 32 bits. */
const shareOf = (token: string): number => {
  let hash = 0x811c9dc5
  for (let at = 0; at < token.length; at++) hash = Math.imul(hash ^ token.charCodeAt(at), 0x01000193)
  return (hash >>> 0) % SHARES
}

/** The end of a subject that names a job. */
const jobPart = (id: string): string => {
  const token = escapeToken(id)
  return `${shareOf(token)}.${token}`
}

/** The subject to which another program has published the task that is stored on this one. */
export const publishedTo = (subject: string): string => subject.replace(UNNAMED, ".$1")

/** Task and method in the subject of a task that another program has published. */
const UNSAID = `${nameToken("")}.${nameToken("")}`

const UNNAMED = new RegExp(`\\.${UNSAID}\\.\\d+\\.([^.]+)$`)

/** The parts of a task's subject. */
export interface TaskAddress {
  readonly scheduled: boolean
  readonly queue: string
  /** Lowest level of the band. */
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

  /** The index of a level's band in {@link levels}. */
  place(level: number): number {
    return this.#places[level] ?? -1
  }
}

/** The names of one namespace. */
export class Names {
  readonly namespace: string
  readonly queueStream: string
  readonly stateStream: string
  readonly indexStream: string
  readonly storeStream: string
  /** How the subject of the last task begins: many in a row go there. */
  #last = { kind: "", queue: "", band: -1, task: "", method: "", begin: "" }

  constructor(namespace: string) {
    this.namespace = namespace
    this.queueStream = `${namespace}_queue`
    this.stateStream = `${namespace}_state`
    this.indexStream = `${namespace}_index`
    this.storeStream = `${namespace}_store`
  }

  task(
    kind: "j" | "s",
    queue: string,
    band: number,
    id: string,
    { task, method = "" }: Pick<Index, "task" | "method">,
  ): string {
    let last = this.#last
    if (
      last.kind !== kind ||
      last.queue !== queue ||
      last.band !== band ||
      last.task !== task ||
      last.method !== method
    ) {
      const begin = `${this.namespace}.${kind}.${escapeToken(queue)}.${band}.${nameToken(task)}.${nameToken(method)}.`
      last = { kind, queue, band, task, method, begin }
      this.#last = last
    }
    return last.begin + jobPart(id)
  }

  /** Reads a subject of the queue stream. */
  parseTask(subject: string): TaskAddress | undefined {
    const [, kind, queue, band, , , , id] = subject.slice(this.namespace.length).split(".")
    if (queue === undefined || band === undefined || id === undefined) return undefined
    return { scheduled: kind === "s", queue: unescapeToken(queue), band: Number(band), id: unescapeToken(id) }
  }

  /**
   * Filter for all tasks of one job, due or not, in any queue. With `*` for both kinds it matches subjects of other
   * streams too.
   */
  tasksOf(id: string, kind: "j" | "s" | "*" = "*"): string {
    return `${this.namespace}.${kind}.*.*.*.*.${jobPart(id)}`
  }

  /** Filter for tasks of a queue, or of all. It matches as well where other programs publish. */
  tasksIn(kind: "j" | "s", queue: string | undefined): string {
    return `${this.namespace}.${kind}.${queue === undefined ? "" : `${escapeToken(queue)}.`}>`
  }

  /**
   * Filter for stored tasks, of any kind or those that are due later, by queue, task and method, all or those of one share.
   * Tasks of other programs have an empty task and method.
   */
  tasksLike(kind: "s" | "*", queue?: string, task?: string, method?: string, share?: number): string {
    const where = queue === undefined ? "*" : escapeToken(queue)
    return [this.namespace, kind, where, "*", nameOrAny(task), nameOrAny(method), share ?? "*", "*"].join(".")
  }

  /**
   * The subjects of all tasks. Only those of these bands: a task that another program publishes to a level in between
   * would never be taken, so that the server must refuse it.
   */
  tasksOn(bands: ReadonlyArray<number>): ReadonlyArray<string> {
    return bands.flatMap((band) => [
      ...(["j", "s"] as const).map((kind) => `${this.namespace}.${kind}.*.${band}.*.*.*.*`),
      `${this.namespace}.j.*.${band}.*`,
    ])
  }

  /** How the server stores what other programs publish: with no task and no method in the subject. */
  transform(): { readonly src: string; readonly dest: string } {
    return {
      src: `${this.namespace}.j.*.*.*`,
      dest: `${this.namespace}.j.{{wildcard(1)}}.{{wildcard(2)}}.${UNSAID}.{{partition(${SHARES},3)}}.{{wildcard(3)}}`,
    }
  }

  /** Filter of the consumer of one band. */
  band(queue: string, band: number): string {
    return `${this.namespace}.j.${escapeToken(queue)}.${band}.*.*.*.*`
  }

  /**
   * Name of the consumer of one band. A long queue name is hashed: the server uses the name for files, whose names have
   * at most 255 bytes.
   */
  consumer(queue: string, band: number): string {
    const token = escapeToken(queue)
    const short = token.length <= 200 ? token : `=${createHash("sha256").update(token).digest("hex").slice(0, 40)}`
    return `${short}-${band}`
  }

  record(id: string): string {
    return `${this.namespace}.t.${escapeToken(id)}`
  }

  /** Subject of a job's entry; `list` is that of {@link listName}. */
  entry(list: string, id: string): string {
    return `${this.namespace}.x.${list}.${jobPart(id)}`
  }

  /** Filter for the entries of a class. */
  entries(kind: string, queue?: string, task?: string, method?: string): string {
    return this.#entries(kind, [queue, task, method], "*")
  }

  /** Filter for about one in {@link SHARES} of these entries, always of the same jobs. */
  entriesIn(share: number, kind: string, queue?: string, task?: string, method?: string): string {
    return this.#entries(kind, [queue, task, method], String(share))
  }

  #entries(kind: string, names: ReadonlyArray<string | undefined>, share: string): string {
    return [this.namespace, "x", kind, ...names.map(nameOrAny), share, "*"].join(".")
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

  /** A filter that matches at least the keys with this prefix. */
  values(prefix: string): string {
    // Of the last piece only the beginning is known, so that the filter ends before it.
    const pieces = piecesOf(prefix).slice(0, -1)
    return [`${this.namespace}.k`, ...pieces.map(escapeToken), ">"].join(".")
  }

  /** How the subjects begin on which changes of keys with this prefix are republished. */
  eventsOf(prefix: string): string {
    const pieces = piecesOf(prefix)
    const last = pieces.pop() ?? ""
    return [`${this.namespace}.ev.k`, ...pieces.map(escapeToken), last === "" ? "" : escapeToken(last)].join(".")
  }

  /** Subject of a message that only checks the revision of a key. */
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

  /** Subjects on which records or values are republished: all of them, or one. */
  event(kind: "t" | "k", id?: string): string {
    return `${this.namespace}.ev.${kind}.${id === undefined ? ">" : escapeToken(id)}`
  }

  topic(topic: string): string {
    return `${this.namespace}.news.${escapeToken(topic)}`
  }
}

/**
 * Most pieces of a key, because deeper subjects cost the server more. The rest of a longer key stays in the last piece.
 */
const MAX_PIECES = 8

/** A key cut after each separator, so that a prefix can be a filter of the server. The last piece may be empty. */
const piecesOf = (key: string): Array<string> => {
  const pieces = key.split(/(?<=[/:.])/)
  if (/[/:.]$/.test(key)) pieces.push("")
  return pieces.length <= MAX_PIECES
    ? pieces
    : [...pieces.slice(0, MAX_PIECES - 1), pieces.slice(MAX_PIECES - 1).join("")]
}
