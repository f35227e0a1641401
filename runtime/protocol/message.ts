/**
 * A task as it travels: headers, properties and a body of bytes (Celery message protocol 2).
 *
 * Everything that routes, expires, revokes, lists or dead-letters a task reads headers and properties only; the body
 * stays bytes until the method that runs it asks for its arguments.
 */

/** Application headers. Plain JSON values; absent and `null` mean the same. */
export type Headers = Readonly<Record<string, unknown>>

/** Message properties, with the names that they have on Celery's wire. */
export interface Properties {
  readonly content_type: string
  /** `utf-8` for text, `binary` for bytes. */
  readonly content_encoding: string
  /** Equal to the `id` header in protocol 2. */
  readonly correlation_id?: string
  /** Where a Celery client of the `rpc://` back end waits for its result. */
  readonly reply_to?: string
  /** 0–9, 9 first. */
  readonly priority?: number
  /** 2 is persistent, 1 transient. */
  readonly delivery_mode?: number
  /** Milliseconds, as text. Read, never obeyed: expiry is recorded, not dropped by a broker. */
  readonly expiration?: string
  /** Properties this version does not know, carried along unchanged. */
  readonly [other: string]: unknown
}

/** One message: what a queue stores and hands over. */
export interface Message {
  readonly headers: Headers
  readonly properties: Properties
  readonly body: Uint8Array
}

/** What was found in a queue and is no message: kept as it came, with the reason, and never thrown at a worker. */
export interface Undecodable {
  readonly undecodable: string
  readonly raw: Uint8Array
}

export const isUndecodable = (message: Message | Undecodable): message is Undecodable => "undecodable" in message

/** Priority when a task names none. */
export const DEFAULT_PRIORITY = 4

/** Priority level of a task that was put at the front: one above the highest priority. */
export const FRONT_LEVEL = 10

/**
 * One task on its way into a queue: the message, and what a transport needs to store it without reading it.
 * Made by `postingOf` from a message, so that address and message never disagree.
 */
export interface AddressedTask {
  readonly id: string
  /** 1 on submission; a job that is run again begins its next run. */
  readonly run: number
  /** Retries that the application asked for. */
  readonly retries: number
  /** How often this very task was moved to another queue (another language's workers); absent is 0. */
  readonly hops?: number
  readonly queue: string
  /** 0–9, or {@link FRONT_LEVEL}. Higher is taken first. */
  readonly level: number
  /** Not before this time, in milliseconds since the epoch. Absent: at once. */
  readonly due?: number
  /** Must not start after this time, in milliseconds since the epoch. */
  readonly expires?: number
  /** Tasks with the same key run one at a time, in order of submission. */
  readonly key?: string
  readonly message: Message
}

/** What makes publishing idempotent. The id alone would swallow retries. */
export const publishKey = (posting: Pick<AddressedTask, "id" | "run" | "retries" | "hops">): string =>
  posting.hops
    ? `${posting.id}/${posting.run}/${posting.retries}/${posting.hops}`
    : `${posting.id}/${posting.run}/${posting.retries}`
