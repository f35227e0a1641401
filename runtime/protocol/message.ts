/**
 * A task as a message: headers, properties and a body of bytes (Celery message protocol 2).
 *
 * Routing, expiring, revoking, listing and dead-lettering read headers and properties only. The body is decoded when the
 * method that runs the task needs its arguments.
 */

/** Headers of a message: plain JSON values. Absent and `null` mean the same. */
export type Headers = Readonly<Record<string, unknown>>

/** Properties of a message, with the names of Celery's wire. */
export interface Properties {
  readonly content_type: string
  /** `utf-8` for text, `binary` for bytes. */
  readonly content_encoding: string
  /** Equal to the `id` header in protocol 2. */
  readonly correlation_id?: string
  /** Queue on which a Celery client with the `rpc://` back end waits for its result. */
  readonly reply_to?: string
  /** 0–9, 9 first. */
  readonly priority?: number
  /** 2 is persistent, 1 transient. */
  readonly delivery_mode?: number
  /** Milliseconds, as text. It is ignored: a task that expires is recorded, and not dropped by a broker. */
  readonly expiration?: string
  /** Properties that this version does not know travel on unchanged. */
  readonly [other: string]: unknown
}

/** One message of a queue. */
export interface Message {
  readonly headers: Headers
  readonly properties: Properties
  readonly body: Uint8Array
}

/** Bytes in a queue that are no message, with the reason why they are none. */
export interface Undecodable {
  readonly undecodable: string
  readonly raw: Uint8Array
}

export const isUndecodable = (message: Message | Undecodable): message is Undecodable => "undecodable" in message

/** Priority of a task that has none. */
export const DEFAULT_PRIORITY = 4

/** Level of a task at the front of its queue: one above the highest priority. */
export const FRONT_LEVEL = 10

export const isLevel = (level: number): boolean => Number.isInteger(level) && level >= 0 && level <= FRONT_LEVEL

/**
 * A task on its way into a queue: the message, and the address by which a transport stores it without reading it. `postingOf`
 * makes it of the message, so that address and message always agree.
 */
export interface JobPosting {
  readonly id: string
  /** Number of the run, 1 on submission. A job that is run again by hand, or repeats, begins its next run. */
  readonly run: number
  /** Number of retries so far. */
  readonly retries: number
  /** How often a later posting replaced one of the same retry: it was moved to another queue or forward in time, or its job has waited. Absent: 0. */
  readonly hops?: number
  readonly queue: string
  /** 0–9, or {@link FRONT_LEVEL}. Higher is taken first. */
  readonly level: number
  /** The task must not start before this time, in milliseconds since the epoch. Absent: it may start at once. */
  readonly due?: number
  /** The task must start before this time, in milliseconds since the epoch. */
  readonly expires?: number
  readonly message: Message
}

/**
 * The publish key: a transport stores a posting with the same key once. The id alone would make a retry a duplicate.
 */
export const publishKey = (posting: Pick<JobPosting, "id" | "run" | "retries" | "hops">): string =>
  posting.hops
    ? `${posting.id}/${posting.run}/${posting.retries}/${posting.hops}`
    : `${posting.id}/${posting.run}/${posting.retries}`
