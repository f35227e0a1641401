/**
 * Finds jobs. Looks where a job was before where it goes (queue, then record), so that one in motion is seen at least once,
 * and confirms a miss once, on the leader.
 */
import type { Index, Known, QueuedTask } from "../../../runtime/transport/known.ts"
import { EXPIRES_HEADER, SCHEDULE_HEADER } from "../queue/posts.ts"
import { indexOf } from "../streams/index-header.ts"
import type { Names } from "../streams/names.ts"
import type { Reader, StoredMessage } from "../streams/reader.ts"
import type { Records, StoredRecord } from "./records.ts"

/** A task in the queue stream. */
export interface FoundTask {
  readonly id: string
  readonly seq: number
  readonly index: Index | undefined
  readonly task: QueuedTask
}

/** Where a job was found. */
export interface Trace {
  readonly task: FoundTask | undefined
  readonly record: StoredRecord | undefined
}

export class Finder {
  readonly #names: Names
  readonly #tasks: Reader
  readonly #records: Records

  /** `tasks` reads the queue stream. */
  constructor(parts: { names: Names; tasks: Reader; records: Records }) {
    this.#names = parts.names
    this.#tasks = parts.tasks
    this.#records = parts.records
  }

  async find(ids: ReadonlyArray<string>): Promise<ReadonlyArray<Known | undefined>> {
    const found = new Map(await this.traces(ids))
    const missed = ids.filter((id) => knownOf(found.get(id)) === undefined)
    for (const [id, trace] of await this.traces(missed, true)) found.set(id, trace)
    return ids.map((id) => knownOf(found.get(id)))
  }

  /** What there is about these jobs, by id. */
  async traces(ids: ReadonlyArray<string>, current = false): Promise<ReadonlyMap<string, Trace>> {
    const messages = await this.#tasks.last(
      ids.map((id) => this.#names.tasksOf(id)),
      current,
    )
    // Not before: the task of a job leaves the queue after its record was written.
    const records = await this.#records.read(ids)
    const tasks = new Map<string, FoundTask>()
    // Of several tasks of one job the newest is the one that counts; they come in order.
    for (const message of messages) {
      const task = taskIn(message, this.#names)
      if (task !== undefined && task.seq > (tasks.get(task.id)?.seq ?? 0)) tasks.set(task.id, task)
    }
    return new Map(ids.map((id) => [id, { task: tasks.get(id), record: records.get(id) }]))
  }
}

export const knownOf = (trace: Trace | undefined): Known | undefined => {
  const { record, task } = trace ?? {}
  if (record === undefined) return task && { revision: "", task: task.task }
  const { revision, bytes } = record
  return { revision, record: bytes, ...(task === undefined ? {} : { task: task.task }) }
}

/** The task in a message of the queue stream. */
export const taskIn = (message: StoredMessage, names: Names): FoundTask | undefined => {
  const address = names.parseTask(message.subject)
  if (address === undefined) return undefined
  const { id, queue, scheduled } = address
  const due = Date.parse(message.header(SCHEDULE_HEADER).slice("@at ".length))
  const expires = expiresOf(message)
  return {
    id,
    seq: message.seq,
    index: indexOf(message),
    task: {
      queue,
      at: message.time,
      content: message.data.slice(),
      ...(scheduled && Number.isFinite(due) ? { due } : {}),
      ...(expires === undefined ? {} : { expires }),
    },
  }
}

export const expiresOf = (message: StoredMessage): number | undefined => {
  const text = message.header(EXPIRES_HEADER)
  return text === "" ? undefined : Number(text)
}
