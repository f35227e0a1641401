/**
 * Writes what a worker has counted into the store, every ten seconds, whatever number of jobs that is. A worker that is
 * killed loses the last ten seconds of it.
 */
import type { Connection } from "../connection/connection.ts"
import { generateId } from "../id.ts"
import type { Log } from "../log/log.ts"
import type { FailureTally, ToldCause } from "./failures.ts"
import {
  DEPTHS,
  type DepthSample,
  FAILURES,
  type KeptSlot,
  KNOWN,
  KNOWN_NAME,
  type KnownCause,
  knownWith,
  MOST_SAMPLED,
  SLOTS,
  slotName,
} from "./kept.ts"
import { MINUTE_MS, SLOT_MINUTES, SLOT_MS, type Tally, type ToldSlot } from "./tally.ts"

/** How often a worker writes. */
export const KEEP_EVERY_MS = 10_000

/** Longest wait for the last write of a worker that stops. */
const END_MS = 2_000

/** What is known of the worker, besides what it has counted. */
export type KeptWorker = Pick<KeptSlot, "worker" | "host" | "pid" | "startedAt" | "version" | "queues" | "concurrency">

export interface KeeperOptions {
  readonly connection: Pick<Connection, "store" | "jobs">
  readonly tally: Tally
  readonly failures: FailureTally
  readonly describe: () => KeptWorker
  /** The clock of the transport, in milliseconds since the epoch. */
  readonly now: () => number
  readonly log: Pick<Log, "debug">
}

export class Keeper {
  readonly #options: KeeperOptions
  readonly #id = generateId().slice(-8)
  readonly #began = performance.now()
  /** When the worker started, once the clock of the transport is known: with the first write. */
  #since: number | undefined
  readonly #timer: ReturnType<typeof setInterval>
  #writing: Promise<void> | undefined
  /** The causes of failures that the board knows, as they were when this worker last changed them. */
  #known: ReadonlyArray<KnownCause> = []
  /** The minute whose sample of the queues is known to be there. */
  #sampled = 0

  constructor(options: KeeperOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.keep(), KEEP_EVERY_MS)
    this.#timer.unref()
  }

  /** Writes now, unless a write is under way. Never rejects. */
  keep(): Promise<void> {
    this.#writing ??= this.#round().finally(() => {
      this.#writing = undefined
    })
    return this.#writing
  }

  async #round(): Promise<void> {
    try {
      await this.#write(false)
      await this.#sample()
    } catch (cause) {
      this.#options.log.debug("what this worker has counted could not be written yet", { cause: String(cause) })
    }
  }

  /** Writes for the last time, with the note that the worker stops in order. Never rejects, and ends within 2 seconds. */
  async end(): Promise<void> {
    clearInterval(this.#timer)
    const last = (this.#writing ?? Promise.resolve()).then(() => this.#write(true)).catch(() => undefined)
    await Promise.race([last, new Promise((resolve) => setTimeout(resolve, END_MS).unref())])
  }

  async #write(isLast: boolean): Promise<void> {
    const { connection, tally, now } = this.#options
    const { current, over } = tally.told(now())
    for (const slot of over) {
      await connection.store.write([this.#entry(slot, false)])
      tally.written([slot])
    }
    await connection.store.write([this.#entry(current, isLast)])
    await this.#writeFailures()
  }

  async #writeFailures(): Promise<void> {
    const { connection, failures, now, describe } = this.#options
    const { worker, version } = describe()
    const pending = failures.told(now())
    for (const { slot, causes } of pending.slots) {
      const value = { worker, ...(version === undefined ? {} : { version }), causes }
      await connection.store.write([FAILURES.put(slotName(slot, worker, this.#id), value)])
    }
    const met = pending.slots.flatMap(({ causes }) => causes)
    // With one that is news all are noted, so that those that go on do not become the least recent ones.
    if (met.some((cause) => this.#isNews(cause))) {
      const known = await KNOWN.change(connection.store, KNOWN_NAME, (found) => ({
        value: { causes: knownWith(found?.value?.causes ?? [], met) },
      }))
      if (known !== "conflict") this.#known = known.value.causes
    }
    failures.written(pending)
  }

  /** Whether the list of known causes is to be changed: for each cause that goes on that is once in ten minutes. */
  #isNews({ fingerprint, last }: ToldCause): boolean {
    const known = this.#known.find((each) => each.fingerprint === fingerprint)
    return known === undefined || last - known.last >= SLOT_MS
  }

  #entry({ slot, cells }: ToldSlot, isLast: boolean) {
    const described = this.#options.describe()
    const now = this.#options.now()
    const at = Math.min(now, (slot + 1) * SLOT_MS - 1)
    this.#since ??= Math.round(now - (performance.now() - this.#began))
    const value = { ...described, id: this.#id, since: this.#since, at, cells, ...(isLast ? GOODBYE : {}) }
    return SLOTS.put(slotName(slot, described.worker, this.#id), value)
  }

  /** Writes how much waits in the queues, unless another worker has done so in this minute. */
  async #sample(): Promise<void> {
    const { connection, now } = this.#options
    const { store, jobs } = connection
    const at = now()
    const minute = Math.floor(at / MINUTE_MS)
    if (jobs.queues === undefined || minute <= this.#sampled) return
    const name = String(Math.floor(minute / SLOT_MINUTES))
    const isThere = (samples: ReadonlyArray<DepthSample>) =>
      samples.some((each) => each.minute === minute % SLOT_MINUTES)
    const before = (await DEPTHS.get(store, name))?.value?.minutes ?? []
    this.#sampled = minute
    if (isThere(before)) return
    const queues = [...(await jobs.queues())]
      .sort((a, b) => b.ready + b.scheduled + b.held - (a.ready + a.scheduled + a.held))
      .slice(0, MOST_SAMPLED)
    const sample: DepthSample = {
      minute: minute % SLOT_MINUTES,
      at,
      queues: queues.map(({ queue, ready, scheduled, held }) => [queue, ready, scheduled, held]),
    }
    await DEPTHS.change(store, name, (found) => {
      const minutes = found?.value?.minutes ?? []
      return isThere(minutes) ? "keep" : { value: { minutes: [...minutes, sample].slice(-SLOT_MINUTES) } }
    })
  }
}

const GOODBYE = { goodbye: true } as const
