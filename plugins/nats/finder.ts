/**
 * Finds jobs. Looks where a job was before where it goes (queue, run, record), so that one in motion is seen at least
 * once, and confirms a miss once, on the leader.
 */
import type { Found } from "../../runtime/transport/mod.ts"
import type { Journal } from "./journal.ts"
import type { Runs } from "./runs.ts"
import { escapeToken, type Names } from "./streams/names.ts"
import type { Reader } from "./streams/reader.ts"
import { readWaiting, type Traces, view, type Waiting } from "./views.ts"

export interface FinderParts {
  readonly names: Names
  /** Of the queue stream. */
  readonly tasks: Reader
  readonly runs: Runs
  readonly journal: Journal
}

export class Finder {
  readonly #parts: FinderParts

  constructor(parts: FinderParts) {
    this.#parts = parts
  }

  async find(id: string): Promise<Found | undefined> {
    for (const confirm of [false, true]) {
      const traces = (await this.traces([id], confirm)).get(id)
      const record = traces && view(traces, Date.now())
      if (record !== undefined) return { record, revision: revisionOf(traces) }
    }
    return undefined
  }

  /** What there is about these jobs, by id. */
  async traces(ids: ReadonlyArray<string>, current = false): Promise<ReadonlyMap<string, Traces>> {
    const { names, tasks, runs, journal } = this.#parts
    const filters = ids.map((id) => names.tasksOf(escapeToken(id)))
    const [messages, said] = await Promise.all([tasks.last(filters, current), runs.read(ids)])
    // Not before: its task leaves the queue after the record of a job has been written.
    const kept = await journal.read(ids)
    const waiting = new Map<string, Waiting>()
    for (const message of messages) {
      const found = readWaiting(message, names)
      // Of several tasks of one job the newest is the one that counts.
      if (found !== undefined && (waiting.get(found.posting.id)?.seq ?? 0) < found.seq)
        waiting.set(found.posting.id, found)
    }
    return new Map(ids.map((id) => [id, { waiting: waiting.get(id), said: said.get(id), kept: kept.get(id) }]))
  }
}

const revisionOf = (traces: Traces | undefined): string => (traces?.kept === undefined ? "" : String(traces.kept.seq))
