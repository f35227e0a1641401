/**
 * Reads what workers have kept, and adds it up. A slot that is over is read once per process; what was read of the
 * others within the last second is used again, whatever the number of callers.
 */
import type { Store } from "../transport/store.ts"
import {
  coarse,
  DEPTHS,
  type DepthSample,
  FAILURES,
  type FailureSlot,
  KNOWN,
  KNOWN_NAME,
  type KnownCause,
  MAX_CAUSES,
  mergedSlot,
  RETENTION_MS,
  SLOTS,
  type SlotCell,
  type SlotEntry,
} from "./entries.ts"
import { MAX_OVER, SLOT_MS } from "./tally.ts"

/** How long an answer about a slot that goes on is used again. */
const FRESH_MS = 1_000
/** A slot is not written any more this long after its end, unless the transport was away. */
const LATE_MS = 120_000
/** How long an answer about a slot is used again that workers may still write, because the transport was away at its end. */
const MAY_CHANGE_MS = 60_000
/** Slots whose minutes are kept one by one; older ones are added up. */
const FINE_SLOTS = 14
/** Most workers that are read of a slot. */
const MAX_WORKERS = 1_000
/** Where workers kept more ids of jobs than this in a slot, only a few of each cause are kept here. */
const MAX_SLOT_IDS = 4_000
const FEW_IDS = 5
/** How long one request goes on reading slots that this process does not know yet. */
const BUDGET_MS = 50
/** Slots that are read at a time. */
const AT_A_TIME = 8

/** A worker as it was last seen. Times are milliseconds since the epoch, by the clock of the transport. */
export interface SeenWorker extends Omit<SlotEntry, "cells"> {
  readonly slot: number
}

export interface Slot {
  readonly slot: number
  readonly cells: ReadonlyArray<SlotCell>
  readonly workers: ReadonlyArray<SeenWorker>
}

export interface ReadSlots {
  /** Oldest first. */
  readonly slots: ReadonlyArray<Slot>
  /** When the newest entry was written, in milliseconds since the epoch; 0 where there is none. */
  readonly newest: number
  /** Not all slots could be read in time: the next call reads on. */
  readonly partial: boolean
}

interface Cached<A> {
  readonly value: Promise<A>
  readonly until: number
}

/** Values that are asked for again and again, each read once while its answer is fresh. */
class Cache<A> {
  readonly #entries = new Map<number, Cached<A>>()

  get(key: number): Promise<A> | undefined {
    const found = this.#entries.get(key)
    return found !== undefined && found.until > performance.now() ? found.value : undefined
  }

  set(key: number, value: Promise<A>, ms: number): Promise<A> {
    const entry = { value, until: performance.now() + ms }
    this.#entries.set(key, entry)
    // After a failure it is asked again.
    value.catch(() => {
      if (this.#entries.get(key) === entry) this.#entries.delete(key)
    })
    return value
  }

  forgetBefore(key: number): void {
    for (const each of this.#entries.keys()) if (each < key) this.#entries.delete(each)
  }
}

/** How long what was read of a slot is used again. */
const freshMs = (slot: number, now: number): number => {
  const age = now - (slot + 1) * SLOT_MS
  return age <= LATE_MS ? FRESH_MS : age <= MAX_OVER * SLOT_MS + LATE_MS ? MAY_CHANGE_MS : RETENTION_MS
}

/** Reads slots from the newest to the oldest, until there are no more or the time of one request is over. */
const newestFirst = async <A>(
  cache: Cache<A>,
  from: number,
  to: number,
  now: number,
  load: (slot: number) => Promise<A>,
): Promise<{ readonly found: Array<A>; readonly partial: boolean }> => {
  const oldest = Math.floor((now - RETENTION_MS) / SLOT_MS)
  cache.forgetBefore(oldest)
  const last = Math.floor(Math.min(to, now) / SLOT_MS)
  const first = Math.max(Math.floor(from / SLOT_MS), oldest)
  const deadline = performance.now() + BUDGET_MS
  const found: Array<A> = []
  let partial = false
  for (let at = last; at >= first; at -= AT_A_TIME) {
    const asked = Array.from({ length: Math.min(AT_A_TIME, at - first + 1) }, (_, back) => at - back)
    // The newest slots are read in any case, however slow the transport is.
    const isLate = at !== last && performance.now() > deadline
    const here = asked.filter((slot) => !isLate || cache.get(slot) !== undefined)
    partial ||= here.length < asked.length
    found.push(...(await Promise.all(here.map(load))))
  }
  return { found, partial }
}

export interface ReadFailures {
  readonly slots: ReadonlyArray<FailureSlot>
  readonly known: ReadonlyArray<KnownCause>
  readonly partial: boolean
}

export class SlotReader {
  readonly #store: Store
  readonly #slots = new Cache<Slot>()
  readonly #depths = new Cache<ReadonlyArray<DepthSample>>()
  readonly #failures = new Cache<ReadonlyArray<FailureSlot>>()
  readonly #known = new Cache<ReadonlyArray<KnownCause>>()

  constructor(store: Store) {
    this.#store = store
  }

  /** The slots of a range, `from` and `to` in milliseconds since the epoch. Fails as the store does. */
  async read(from: number, to: number, now: number): Promise<ReadSlots> {
    const { found, partial } = await newestFirst(this.#slots, from, to, now, (slot) => this.#slot(slot, now))
    const slots = found.reverse()
    // At the beginning of a slot nothing of it is written yet.
    const newest = Math.max(0, ...slots.slice(-2).flatMap(({ workers }) => workers.map(({ at }) => at)))
    return { slots, newest, partial }
  }

  /** What workers kept about failures in a range, and since when causes are known. Fails as the store does. */
  async failures(from: number, now: number): Promise<ReadFailures> {
    const known =
      this.#known.get(0) ??
      this.#known.set(
        0,
        KNOWN.get(this.#store, KNOWN_NAME).then((entry) => entry?.value?.causes ?? []),
        FRESH_MS,
      )
    const load = (slot: number) =>
      this.#failures.get(slot) ?? this.#failures.set(slot, this.#loadFailures(slot), freshMs(slot, now))
    const { found, partial } = await newestFirst(this.#failures, from, now, now, load)
    return { slots: found.flat(), known: await known, partial }
  }

  async #loadFailures(slot: number): Promise<ReadonlyArray<FailureSlot>> {
    const entries = await this.#store.list({ prefix: FAILURES.key(`${slot}/`), limit: MAX_WORKERS })
    const kept = entries.flatMap(({ value }) => FAILURES.decode(value) ?? [])
    const ids = kept.flatMap(({ causes }) => causes).reduce((sum, cause) => sum + cause.ids.length, 0)
    const max = ids > MAX_SLOT_IDS ? FEW_IDS : Number.POSITIVE_INFINITY
    const known = kept.flatMap(({ causes }) => causes.map(({ last }) => last)).sort((a, b) => b - a)
    const since = known[2 * MAX_CAUSES] ?? 0
    return kept.map(({ causes, ...rest }) => ({
      ...rest,
      slot,
      causes: causes.filter(({ last }) => last >= since).map((cause) => ({ ...cause, ids: cause.ids.slice(-max) })),
    }))
  }

  #slot(slot: number, now: number): Promise<Slot> {
    const isFine = slot > Math.floor(now / SLOT_MS) - FINE_SLOTS
    // A slot that has become old is read once more, and then takes less memory.
    const ms = isFine ? Math.min(freshMs(slot, now), (FINE_SLOTS * SLOT_MS) / 2) : RETENTION_MS
    return this.#slots.get(slot) ?? this.#slots.set(slot, this.#load(slot, isFine), ms)
  }

  async #load(slot: number, isFine: boolean): Promise<Slot> {
    const entries = await this.#store.list({ prefix: SLOTS.key(`${slot}/`), limit: MAX_WORKERS })
    const kept = entries.flatMap(({ value }) => SLOTS.decode(value) ?? [])
    const merged = mergedSlot(kept)
    return {
      slot,
      cells: isFine ? merged : coarse(merged),
      workers: kept.map(({ cells: _cells, ...worker }) => ({ ...worker, slot })),
    }
  }

  /** Samples of the queues' depths, oldest first. Fails as the store does. */
  async depths(from: number, to: number, now: number): Promise<ReadonlyArray<DepthSample>> {
    const last = Math.floor(Math.min(to, now) / SLOT_MS)
    const first = Math.max(Math.floor(from / SLOT_MS), Math.floor((now - RETENTION_MS) / SLOT_MS))
    this.#depths.forgetBefore(Math.floor((now - RETENTION_MS) / SLOT_MS))
    const missing: Array<number> = []
    for (let slot = first; slot <= last; slot++) if (this.#depths.get(slot) === undefined) missing.push(slot)
    if (missing.length > 0) {
      const read = this.#store.get(missing.map((slot) => DEPTHS.key(String(slot))))
      for (const [at, slot] of missing.entries()) {
        const samples = read.then((entries) => {
          const bytes = entries[at]?.value
          return bytes === undefined ? [] : (DEPTHS.decode(bytes)?.minutes ?? [])
        })
        void this.#depths.set(slot, samples, freshMs(slot, now))
      }
    }
    const slots = Array.from({ length: Math.max(last - first + 1, 0) }, (_, at) => first + at)
    const found = await Promise.all(slots.map((slot) => this.#depths.get(slot) ?? Promise.resolve([])))
    return found.flat().sort((a, b) => a.at - b.at)
  }
}
