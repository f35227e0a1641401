/**
 * Finds jobs whose record waits for a task that is in no queue: whoever stored the record ended before the task was posted.
 * Records that wait are listed anew each time they are stored, so that one which has its task is looked at once.
 */
import type { Finder, Trace } from "../records/finder.ts"
import { classOf, LIVE, STALE_MS } from "../records/records.ts"
import type { Names } from "../streams/names.ts"
import type { Reader } from "../streams/reader.ts"

const BATCH = 256

/** Entries that one look reads; the next look goes on where this one ended. */
const SLICE = 4_000

export class Orphans {
  readonly #names: Names
  readonly #finder: Finder
  readonly #states: Reader
  /** Entries before this one have been found to be of jobs that have a task, or need none. */
  #from = 1
  /** The first one since of which that is not so: where the look begins anew, in case nobody has posted its task. */
  #again: number | undefined

  /** `states` reads the state stream. */
  constructor(parts: { names: Names; finder: Finder; states: Reader }) {
    this.#names = parts.names
    this.#finder = parts.finder
    this.#states = parts.states
  }

  async find(before: number, max: number): Promise<ReadonlyArray<string>> {
    const found: Array<string> = []
    let read = 0
    for await (const messages of this.#states.batches(this.#names.entries(LIVE, undefined), this.#from, BATCH)) {
      const old = messages.filter(({ time }) => time <= before)
      const entries = old.map(({ subject, seq, time }) => ({ id: this.#names.idIn(subject), seq, time }))
      const traces = await this.#finder.traces(
        entries.map(({ id }) => id),
        true,
      )
      const stale: Array<number> = []
      for (const { id, seq, time } of entries) {
        const index = traces.get(id)?.record?.index
        if (isOrphan(traces.get(id))) {
          found.push(id)
          this.#again ??= seq
        } else if ((index === undefined || classOf(index) !== LIVE) && time + STALE_MS < before) stale.push(seq)
      }
      await this.#states.remove(stale)
      this.#from = (old[old.length - 1]?.seq ?? this.#from - 1) + 1
      read += messages.length
      if (read >= SLICE || found.length >= max) return found.slice(0, max)
      if (old.length < messages.length) break
    }
    this.#from = this.#again ?? this.#from
    this.#again = undefined
    return found
  }
}

const isOrphan = (trace: Trace | undefined): boolean => {
  const state = trace?.record?.index?.state
  return (state === "queued" || state === "scheduled") && trace?.task === undefined
}
