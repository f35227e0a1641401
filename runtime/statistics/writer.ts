/**
 * Writes what a worker has counted into the store, at its start and every ten seconds, whatever number of jobs that is. A
 * worker that is killed loses the last ten seconds of it.
 */
import { queueStates } from "../cluster/queue-states.ts"
import type { Connection } from "../connection/connection.ts"
import { generateId } from "../id.ts"
import type { Log } from "../log/log.ts"
import type { QueueStates } from "../transport/job-store/transport.ts"
import {
  DEPTHS,
  type DepthSample,
  FAILURES,
  KNOWN,
  KNOWN_NAME,
  type KnownCause,
  knownWith,
  MAX_SAMPLED,
  SLOTS,
  type SlotEntry,
  slotName,
} from "./entries.ts"
import type { CauseReport, FailureTally } from "./failures.ts"
import { MINUTE_MS, SLOT_MINUTES, SLOT_MS, type SlotReport, type Tally } from "./tally.ts"

/** How often a worker writes. */
export const WRITE_EVERY_MS = 10_000

/** Longest wait for the last write of a worker that stops. */
const END_MS = 2_000

/** What is known of the worker, besides what it has counted. */
export type WorkerDetails = Pick<
  SlotEntry,
  "worker" | "host" | "pid" | "startedAt" | "version" | "queues" | "concurrency"
>

export interface StatisticsWriterOptions {
  readonly connection: Pick<Connection, "store" | "jobs">
  readonly tally: Tally
  readonly failures: FailureTally
  readonly describe: () => WorkerDetails
  /** The clock of the transport, in milliseconds since the epoch. */
  readonly now: () => number
  readonly log: Pick<Log, "debug">
}

export class StatisticsWriter {
  readonly #options: StatisticsWriterOptions
  readonly #id = generateId().slice(-8)
  readonly #began = performance.now()
  /** When the worker started, once the clock of the transport is known: with the first write. */
  #since: number | undefined
  readonly #timer: ReturnType<typeof setInterval>
  #writing: Promise<void> | undefined
  #ended = false
  /** The causes of failures that the board knows, as they were when this worker last changed them. */
  #known: ReadonlyArray<KnownCause> = []
  /** The minute of which a sample of the queues is known to be stored. */
  #sampled = 0

  constructor(options: StatisticsWriterOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.write(), WRITE_EVERY_MS)
    this.#timer.unref()
  }

  /** Writes that the worker is there, as soon as it is. Never rejects. */
  begin(): Promise<void> {
    return this.#once(() => this.#write(false))
  }

  /** Writes now, unless a write is under way, or the last one was. Never rejects. */
  write(): Promise<void> {
    return this.#once(async () => {
      await this.#write(false)
      await this.#sample()
    })
  }

  #once(round: () => Promise<void>): Promise<void> {
    if (this.#ended) return Promise.resolve()
    const refused = (cause: unknown) =>
      this.#options.log.debug("the counts of this worker could not be written yet", { cause: String(cause) })
    this.#writing ??= round()
      .catch(refused)
      .finally(() => {
        this.#writing = undefined
      })
    return this.#writing
  }

  /** Writes for the last time, with the note that the worker stops in order. Never rejects, and ends within 2 seconds. */
  async end(): Promise<void> {
    clearInterval(this.#timer)
    this.#ended = true
    const last = (this.#writing ?? Promise.resolve()).then(() => this.#write(true)).catch(() => undefined)
    await Promise.race([last, new Promise((resolve) => setTimeout(resolve, END_MS).unref())])
  }

  async #write(isLast: boolean): Promise<void> {
    const { connection, tally, now } = this.#options
    const { current, over } = tally.report(now())
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
    const pending = failures.report(now())
    for (const { slot, causes } of pending.slots) {
      const value = { worker, ...(version === undefined ? {} : { version }), causes }
      await connection.store.write([FAILURES.put(slotName(slot, worker, this.#id), value)])
    }
    const met = pending.slots.flatMap(({ causes }) => causes)
    // Where one cause is news all are noted, so that causes that go on do not become the least recent ones.
    if (met.some((cause) => this.#isNews(cause))) {
      const known = await KNOWN.change(connection.store, KNOWN_NAME, (found) => ({
        value: { causes: knownWith(found?.value?.causes ?? [], met) },
      }))
      if (known !== "conflict") this.#known = known.value.causes
    }
    failures.written(pending)
  }

  /** Whether the list of known causes is to be changed. For a cause that goes on this is so once in ten minutes. */
  #isNews({ fingerprint, last }: CauseReport): boolean {
    const known = this.#known.find((each) => each.fingerprint === fingerprint)
    return known === undefined || Math.abs(last - known.last) >= SLOT_MS
  }

  #entry({ slot, cells }: SlotReport, isLast: boolean) {
    const described = this.#options.describe()
    const now = this.#options.now()
    const at = Math.min(now, (slot + 1) * SLOT_MS - 1)
    const since = Math.round(now - (performance.now() - this.#began))
    // The start time stays the same in all entries, unless the clock was set since.
    this.#since = this.#since === undefined || this.#since > since + SLOT_MS ? since : this.#since
    const value = { ...described, id: this.#id, since: this.#since, at, cells, ...(isLast ? GOODBYE : {}) }
    return SLOTS.put(slotName(slot, described.worker, this.#id), value)
  }

  /** Writes how much waits in the queues, unless another worker has done so in this minute. */
  async #sample(): Promise<void> {
    const { connection, now } = this.#options
    const { store } = connection
    const at = now()
    const minute = Math.floor(at / MINUTE_MS)
    const isSetBack = minute < this.#sampled - SLOT_MINUTES
    if (minute <= this.#sampled && !isSetBack) return
    const name = String(Math.floor(minute / SLOT_MINUTES))
    const isThere = (samples: ReadonlyArray<DepthSample>) =>
      samples.some((each) => each.minute === minute % SLOT_MINUTES)
    const before = (await DEPTHS.get(store, name))?.value?.minutes ?? []
    this.#sampled = minute
    if (isThere(before)) return
    const states = await queueStates(connection)
    if (states === undefined) return
    const all = ({ queued, scheduled, started }: QueueStates): number => queued + scheduled + started
    const queues = states.toSorted((a, b) => all(b) - all(a)).slice(0, MAX_SAMPLED)
    const sample: DepthSample = {
      minute: minute % SLOT_MINUTES,
      at,
      queues: queues.map(({ queue, queued, scheduled, started }) => [queue, queued, scheduled, started]),
    }
    await DEPTHS.change(store, name, (found) => {
      const minutes = found?.value?.minutes ?? []
      return isThere(minutes) ? "keep" : { value: { minutes: [...minutes, sample].slice(-SLOT_MINUTES) } }
    })
  }
}

const GOODBYE = { goodbye: true } as const
