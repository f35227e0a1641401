/**
 * The pages of journals in the store: reads them, gives them a time to live, and copies the entries with which the next
 * run begins.
 */
import type { FromStepHeader } from "../protocol/headers.ts"
import { decoder, encoder } from "../protocol/text.ts"
import type { Store, Entry as Stored } from "../transport/store.ts"
import { keptEntries } from "./fold.ts"
import {
  decodePage,
  EMPTY,
  type Entry,
  encodePage,
  endedPage,
  fill,
  journalPrefix,
  pageKey,
  type Tail,
  tailAfter,
  type Waiting,
  waiting,
} from "./page.ts"

/**
 * The shortest time to live of an ended job's journal, in milliseconds: a writer that stood still must find its first
 * page, or it would create it again.
 */
export const MIN_TTL_MS = 3_600_000

export interface Read {
  readonly entries: ReadonlyArray<Entry>
  readonly tail: Tail
  /** Bytes of the pages, and of the results that have keys of their own. */
  readonly bytes: number
}

/** Reads a journal from its first page to one that is not sealed. Fails as the store does. */
export const readJournal = async (store: Store, prefix: string): Promise<Read> => {
  const entries: Array<Entry> = []
  let tail: Tail = EMPTY
  let bytes = 0
  for (let at = 0, count = 1; ; at += count, count = Math.min(16, count * 4)) {
    const first = at
    const found = await store.get(Array.from({ length: count }, (_, each) => pageKey(prefix, first + each)))
    for (const each of found) {
      if (each === undefined) return { entries, tail, bytes }
      const page = decodePage(each.value)
      entries.push(...page.entries)
      bytes += each.value.length
      for (const entry of page.entries) if ("bytes" in entry) bytes += entry.bytes ?? 0
      tail = tailAfter(tail.page, page, each.revision)
      if (!page.sealed) return { entries, tail, bytes }
    }
  }
}

/** The JSON of a result that has a key of its own. Fails where it is no longer stored. */
export const readValue = async (store: Store, prefix: string, name: string): Promise<string> => {
  const [found] = await store.get([prefix + name])
  if (found === undefined) throw new Error(`the result ${name} of a step is no longer kept`)
  return decoder.decode(found.value)
}

/** What a run that was started by hand keeps of the runs before. */
export interface KeptRuns {
  /** Earlier runs, of which the first that has a journal is continued. */
  readonly from: ReadonlyArray<number>
  readonly fromStep?: FromStepHeader | undefined
}

/** The entries that a run continues with, and the run that has written them; `undefined` if none of the earlier runs has any. */
export const readKept = async (
  store: Store,
  id: string,
  { from, fromStep }: KeptRuns,
): Promise<{ readonly run: number; readonly entries: ReadonlyArray<Entry> } | undefined> => {
  for (const run of from) {
    const { entries } = await readJournal(store, journalPrefix(id, run))
    if (entries.length > 0)
      return { run, entries: keptEntries(entries, fromStep?.run === run ? fromStep.step : undefined) }
  }
  return undefined
}

/**
 * Copies the steps that a run keeps into its journal. The first page is written last, so that an unfinished copy does not
 * count. A page that exists already was copied before, from the same entries.
 */
export const copyKept = async (store: Store, id: string, runs: KeptRuns, to: string, by: string): Promise<void> => {
  const kept = await readKept(store, id, runs)
  if (kept === undefined) return
  let rest: ReadonlyArray<Waiting> = kept.entries.map(waiting)
  for (const { entry } of rest) {
    if (entry.kind !== "ok" || entry.large === undefined) continue
    const value = encoder.encode(await readValue(store, journalPrefix(id, kept.run), entry.large))
    await store.write([{ key: to + entry.large, value }])
  }
  const pages: Array<Uint8Array> = []
  while (rest.length > 0) {
    const { text, taken, sealed } = fill(EMPTY, rest)
    pages.push(encodePage({ by, n: pages.length, sealed }, text))
    rest = rest.slice(taken)
  }
  for (const [at, value] of [...pages.entries()].reverse())
    await store.write([{ key: pageKey(to, at), value, expect: "" }])
}

const PAGE_KEY = /\/\d{6}$/

/** Gives every key of an ended job's run a time to live; with a negative one its pages are only marked as ended. */
export const keepAll = async (store: Store, prefix: string, ttlMs: number): Promise<void> => {
  for (let after: string | undefined; ; ) {
    const some = await store.list({ prefix, limit: 64, ...(after === undefined ? {} : { after }) })
    await keep(store, some, ttlMs)
    after = some.at(-1)?.key
    if (some.length < 64) return
  }
}

/** The same for these keys: a store reads them in less time than it lists. */
export const keepKeys = async (store: Store, keys: ReadonlyArray<string>, ttlMs: number): Promise<void> => {
  for (let at = 0; at < keys.length; at += 16) await keep(store, await store.get(keys.slice(at, at + 16)), ttlMs)
}

const keep = async (store: Store, some: ReadonlyArray<Stored | undefined>, ttlMs: number): Promise<void> => {
  for (const { key, value, revision } of some.filter((each) => each !== undefined)) {
    const ended = PAGE_KEY.test(key) ? endedPage(value) : value
    if (ended !== undefined) await store.write([{ key, value: ended, expect: revision, ...ttlOf(ttlMs) }])
  }
}

/** Options of a write that is kept this long, but at least an hour; a negative `keepMs` keeps it for ever. */
export const ttlOf = (keepMs: number): { readonly ttl?: number } =>
  keepMs < 0 ? {} : { ttl: Math.max(keepMs, MIN_TTL_MS) }
