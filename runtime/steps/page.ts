/**
 * The journal of one run of a job as it is stored: entries in pages, one key each. Pure. Each write is a
 * compare-and-set on the last page, or creates the page after a sealed one, so all writes form one chain: once another
 * writer has followed, the next write of the earlier one is refused.
 */
import { CallboardError } from "../errors.ts"
import { hashOf, keyPart } from "../jobs/dependencies/edges.ts"
import { isObject } from "../protocol/guards.ts"
import type { Reverting } from "../protocol/record.ts"
import { decoder, encoder } from "../protocol/text.ts"

/** The failure of a step in its stored form. The first run throws the same form as every later run. */
export interface StepFailure {
  /** Class names and `_tag` of the thrown error, the most specific one first. */
  readonly names: ReadonlyArray<string>
  readonly message: string
  readonly traceback?: string
  readonly fields?: Readonly<Record<string, unknown>>
  readonly cause?: StepFailure
}

/** Where a result is stored that is too large for a page, and how large it is. */
interface LargeValue {
  readonly large: string
  readonly bytes: number
}

/** What is stored about the end of a step, or of a revert. */
export interface Noted {
  readonly step: string
  /** When it ended, in milliseconds since the epoch. */
  readonly at: number
  readonly took: number
  readonly tries: number
}

/**
 * The event of a step: `ok` it completed, `err` it failed, `reverted` it was reverted, `revert-failed` its revert failed for good.
 * `revert`: the step has a function that reverts it. `tried`: a try of a scope has failed, before its steps are reverted.
 */
export type StepEntry =
  | (Noted & {
      readonly kind: "ok"
      readonly revert?: true
      readonly value?: unknown
      /** Number of the signal that ended a wait. */
      readonly signal?: number
    } & Partial<LargeValue>)
  | (Noted & { readonly kind: "err"; readonly revert?: true; readonly failure: StepFailure; readonly retries: number })
  | (Noted & { readonly kind: "tried"; readonly failure: StepFailure; readonly retries: number })
  | (Noted & { readonly kind: "reverted" })
  | (Noted & { readonly kind: "revert-failed"; readonly failure: StepFailure })

/** The handler has begun to wait: until a time, for a signal, or for the end of a job. */
export interface WaitEntry {
  readonly kind: "wait"
  /** Name of the wait, which no step has. */
  readonly step: string
  /** Milliseconds since the epoch, by the clock of the transport. */
  readonly at: number
  readonly until?: number
  readonly signal?: string
  readonly job?: string
}

export type Entry =
  | StepEntry
  | WaitEntry
  /**
   * A delivery has opened the journal. `claims`: how often the job was claimed since its last outcome, this claim
   * included.
   */
  | { readonly kind: "open"; readonly fence: string; readonly at: number; readonly claims: number }
  /** Reverting of the steps has begun. */
  | { readonly kind: "reverting"; readonly at: number; readonly ending: Reverting }

/** Begins every page, so that another version refuses it instead of misreading it. */
const PAGE_VERSION = 2
/** Version of a page with a wait or a try of a scope, which versions before this one do not know. */
const WAITS_VERSION = 3

export interface Page {
  readonly v: typeof PAGE_VERSION | typeof WAITS_VERSION
  /** Name of the writer, an id; no two deliveries or processes have the same one. */
  readonly by: string
  /** Number of the writer's write. It shows whether a write whose answer was lost was stored. */
  readonly n: number
  /** The page is full: the next entry is in the next page. */
  readonly sealed?: true
  /** The job has ended, and this page has a time to live. */
  readonly ended?: true
  readonly entries: ReadonlyArray<Entry>
}

const PREFIX = "flow/"
export const SHARDS = 16
const SEAL_BYTES = 8 * 1024
const SEAL_ENTRIES = 32
/** A result with more characters of JSON has a key of its own, which the entry names. */
export const LARGE = 4 * 1024

export const shardPrefix = (shard: number): string => `${PREFIX}${shard}/`

/** Prefix of all keys of one run of a job. */
export const journalPrefix = (id: string, run: number): string =>
  `${shardPrefix(hashOf(id) % SHARDS)}${keyPart(id)}/${run}/`

export const pageKey = (prefix: string, page: number): string => `${prefix}${String(page).padStart(6, "0")}`

/** Key of a large result below the prefix of its run: the `n`th one of this writer. */
export const valueKey = (by: string, n: number): string => `v/${by}.${n}`

/** An entry with its JSON. */
export interface Waiting {
  readonly entry: Entry
  readonly text: string
}

export const waiting = (entry: Entry): Waiting => ({ entry, text: JSON.stringify(entry) })

/** The entries of a page as JSON, one after the other, so that a page that grows is not encoded anew each time. */
export interface Held {
  readonly count: number
  readonly text: string
}

/** The last page, as its writer knows it. */
export interface Tail extends Held {
  readonly page: number
  /** Empty where the page does not exist yet. */
  readonly revision: string
}

export const EMPTY: Tail = { page: 0, revision: "", count: 0, text: "" }

/** The next write: as many of the entries as the page takes, at least one, and whether they seal the page. */
export const fill = (
  held: Held,
  entries: ReadonlyArray<Waiting>,
): Held & { readonly taken: number; readonly sealed: boolean } => {
  let { count, text } = held
  let taken = 0
  const isFull = () => count >= SEAL_ENTRIES || text.length >= SEAL_BYTES
  do {
    text = count++ === 0 ? (entries[taken++]?.text ?? "") : `${text},${entries[taken++]?.text}`
  } while (taken < entries.length && !isFull())
  return { count, text, taken, sealed: isFull() }
}

const ENTRIES = `,"entries":[`
const ENDED = `,"ended":true`
const WAIT = `{"kind":"wait"`
const TRIED = `{"kind":"tried"`

export const encodePage = (
  { by, n, sealed, ended }: Pick<Page, "by" | "n"> & { readonly sealed?: boolean; readonly ended?: boolean },
  entries: string,
): Uint8Array => {
  const flags = `${sealed ? `,"sealed":true` : ""}${ended ? ENDED : ""}`
  const version = entries.includes(WAIT) || entries.includes(TRIED) ? WAITS_VERSION : PAGE_VERSION
  return encoder.encode(`{"v":${version},"by":"${by}","n":${n}${flags}${ENTRIES}${entries}]}`)
}

/** A page with the mark that its job has ended; `undefined` where it has it already. The entries are not parsed. */
export const endedPage = (bytes: Uint8Array): Uint8Array | undefined => {
  const text = decoder.decode(bytes)
  const at = text.indexOf(ENTRIES)
  const isKnown = [PAGE_VERSION, WAITS_VERSION].some((version) => text.startsWith(`{"v":${version},`))
  if (!isKnown || at < 0) throw new OtherVersion()
  const head = text.slice(0, at)
  return head.endsWith(ENDED) ? undefined : encoder.encode(`${head}${ENDED}${text.slice(at)}`)
}

const isPage = (value: unknown): value is Page =>
  isObject(value) &&
  "v" in value &&
  (value.v === PAGE_VERSION || value.v === WAITS_VERSION) &&
  "by" in value &&
  typeof value.by === "string" &&
  "entries" in value &&
  Array.isArray(value.entries)

/** Fails with {@link OtherVersion}. */
export const decodePage = (bytes: Uint8Array): Page => {
  const value: unknown = JSON.parse(decoder.decode(bytes))
  if (isPage(value)) return value
  throw new OtherVersion()
}

/** A page of another version of Callboard, which this version cannot understand. */
export class OtherVersion extends CallboardError {
  constructor() {
    super(
      "unsupported",
      `a page of the job's journal does not have version ${PAGE_VERSION} or ${WAITS_VERSION}, which this Callboard reads: use the version of Callboard that wrote it, or run the job again from the start`,
    )
  }
}

/** The tail after the last page that was read. */
export const tailAfter = (at: number, { sealed, entries }: Page, revision: string): Tail =>
  sealed ? { ...EMPTY, page: at + 1 } : { page: at, revision, count: entries.length, text: entriesText(entries) }

/** The entries of a page as {@link encodePage} takes them. */
export const entriesText = (entries: ReadonlyArray<Entry>): string => JSON.stringify(entries).slice(1, -1)

/**
 * Decides by the stored page what became of a write that was refused, or whose answer was lost. `again`: it was not
 * stored, and no other writer has followed. `superseded`: another writer has followed, so this one may write no more.
 */
export const writeOutcome = (
  found: Page | undefined,
  sent: { readonly by: string; readonly n: number; readonly revision: string },
): "written" | "again" | "superseded" => {
  if (found === undefined) return sent.revision === "" ? "again" : "superseded"
  if (found.by !== sent.by) return "superseded"
  return found.n >= sent.n ? "written" : "again"
}
