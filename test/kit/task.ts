/** Minimal tasks and records, as an application would make them. */
import { encodeEnvelope } from "../../runtime/protocol/envelope.ts"
import { postingOf } from "../../runtime/protocol/headers.ts"
import type { JobPosting, Message } from "../../runtime/protocol/message.ts"
import { type Headers, isUndecodable, type Properties } from "../../runtime/protocol/message.ts"
import type { JobRecord } from "../../runtime/protocol/record.ts"
import { recordOfPosting, step } from "../../runtime/protocol/record.ts"
import type { State } from "../../runtime/protocol/state.ts"
import { isTerminal } from "../../runtime/protocol/state.ts"
import type { JobDelivery } from "../../runtime/transport/job-store/transport.ts"

export interface TaskFields {
  readonly queue: string
  readonly id?: string
  /** Name of the task. */
  readonly task?: string
  readonly run?: number
  readonly retries?: number
  readonly hops?: number
  readonly priority?: number
  readonly front?: boolean
  /** Milliseconds since the epoch. */
  readonly due?: number
  /** Milliseconds since the epoch. */
  readonly expires?: number
  readonly body?: Uint8Array
  readonly headers?: Headers
  readonly properties?: Partial<Properties>
}

const iso = (time: number | undefined): string | null => (time === undefined ? null : new Date(time).toISOString())

const NO_ARGUMENTS = new TextEncoder().encode('[[],{},{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]')

export const taskOf = (fields: TaskFields & { readonly id: string }): JobPosting => {
  const { id, priority = 4, run = 1, hops } = fields
  const own = {
    run,
    submittedAt: Date.now(),
    ...(fields.front ? { front: true } : {}),
    ...(hops === undefined ? {} : { hops }),
  }
  const message: Message = {
    headers: {
      lang: "js",
      task: fields.task ?? "kit.task",
      id,
      root_id: id,
      parent_id: null,
      group: null,
      retries: fields.retries ?? 0,
      eta: iso(fields.due),
      expires: iso(fields.expires),
      callboard: own,
      ...fields.headers,
    },
    properties: {
      content_type: "application/json",
      content_encoding: "utf-8",
      correlation_id: id,
      priority,
      ...fields.properties,
    },
    body: fields.body ?? NO_ARGUMENTS,
  }
  const made = postingOf(message, fields.queue)
  if (made._tag === "Failure") throw new Error(`the kit made a task that is none: ${made.failure.message}`)
  return hops === undefined ? made.success : { ...made.success, hops }
}

/** Size of a task as `maxTask` counts it: the bytes of its envelope. */
export const encodedSize = (posting: JobPosting): number => {
  const frame = encodeEnvelope(posting.message)
  if (frame._tag === "Failure") throw new Error(`the kit made a task without an envelope: ${frame.failure.message}`)
  return frame.success.length
}

/** The next attempt that the application asks for. */
export const retryOf = (posting: JobPosting, changes: Partial<JobPosting> = {}): JobPosting => {
  const retries = posting.retries + 1
  const headers = { ...posting.message.headers, retries, eta: iso(changes.due) }
  const { due, ...again } = posting
  return { ...again, retries, message: { ...posting.message, headers }, ...changes }
}

/** The record of a task, moved to a state as a worker does it. */
export const recordOf = (
  posting: JobPosting,
  state: State,
  fields: Partial<JobRecord> & { readonly fence: string },
): JobRecord => {
  const now = Date.now()
  const waiting = recordOfPosting(posting, now)
  if (waiting._tag === "Failure") throw new Error(`the kit made a task without a record: ${waiting.failure.message}`)
  const started = step(waiting.success, { at: now, state: "started", attempt: 1 })
  const moved = state === "started" ? started : step(started, { at: now, state })
  const ended = isTerminal(state) ? { endedAt: now, keepMs: 3_600_000 } : {}
  return { ...moved, attempt: 1, startedAt: now, ...ended, ...fields }
}

/** The record of a job that was cancelled by a decision and not by a delivery. */
export const cancelled = (record: JobRecord, fields: Partial<JobRecord> = {}): JobRecord => {
  const { message, ...rest } = record
  const now = Date.now()
  const moved = step(rest, { at: now, state: "cancelled" })
  // An empty fence, since no delivery wrote the record: with a fence the running delivery would take it for its own.
  return { ...moved, fence: "", endedAt: now, keepMs: 3_600_000, ...fields }
}

/** Id of the task that came with a delivery. */
export const idOf = ({ message }: Pick<JobDelivery, "message">): string =>
  isUndecodable(message) ? `undecodable: ${message.undecodable}` : String(message.headers["id"])

/** The message of a delivery. Fails if its content is none. */
export const messageOf = ({ message }: JobDelivery): Message => {
  if (isUndecodable(message)) throw new Error(`expected a message, found: ${message.undecodable}`)
  return message
}
