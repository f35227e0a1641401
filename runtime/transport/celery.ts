/**
 * What a plugin may offer beside its driver, so that Callboard's workers can run among those of Celery: messages that are
 * not tasks, and Celery's result back end. Without it tasks of Celery's clients run, but their results are not written.
 */
import type { Message } from "../protocol/message.ts"
import type { ConnectOptions } from "./driver.ts"

export interface CeleryPlugin {
  /** Connects to the broker at this URL for commands, replies and events. Fails with `TransportError`. */
  messages?(url: URL, options: CeleryConnectOptions): Promise<CeleryMessages>
  /** Connects to the result back end at this URL. Fails with `TransportError`. */
  results?(url: URL, options: CeleryConnectOptions): Promise<CeleryResults>
}

export type CeleryConnectOptions = Pick<ConnectOptions, "namespace" | "name" | "timeout">

/** Messages that are not tasks. All methods fail with `TransportError`. Subscriptions are made again after an outage. */
export interface CeleryMessages {
  /** The priority (0–9, 9 first) of a task that has this one on the wire of Celery, or none. */
  priorityOf(given: number | null): number
  /** Submits a task to a queue, and declares the queue if it does not exist. Resolves once the broker has the task. */
  submit(queue: string, message: Message): Promise<void>
  /** Sends a message to all processes that listen to the exchange now. */
  broadcast(exchange: string, routingKey: string, message: Message): Promise<void>
  /**
   * Calls the listener with each broadcast message until the signal fires. Resolves once the subscription is made. `routingKey`: a
   * pattern of AMQP that ends in `#`. Defaults to all messages of the exchange.
   */
  listen(
    exchange: string,
    listener: (message: Message) => void,
    signal: AbortSignal,
    routingKey?: string,
  ): Promise<void>
  /**
   * Sends a message to the queues that are bound to a direct exchange by this key; with the exchange `""` to the queue of
   * that name. Without such a queue it is dropped.
   */
  send(exchange: string, routingKey: string, message: Message): Promise<void>
  /**
   * Declares a queue that only this process reads, binds it unless the exchange is `""`, and calls the listener with its
   * messages until the signal fires. Then the queue is removed.
   */
  receive(
    binding: { readonly exchange: string; readonly routingKey: string; readonly queue: string },
    listener: (message: Message) => void,
    signal: AbortSignal,
  ): Promise<void>
  close(): Promise<void>
}

/** A listener that hears nothing once the signal has fired, although the broker still sends until it has ended the subscription. */
export const heardUntil =
  <M>(listener: (message: M) => void, signal: AbortSignal) =>
  (message: M): void => {
    if (!signal.aborted) listener(message)
  }

/** A result in the back end. */
export interface KeptResult {
  /** Key of the result in the back end, such as `celery-task-meta-<id>`. */
  readonly key: string
  readonly value: Uint8Array
  /** The queue in which the client waits for it, where results are sent there and kept nowhere. */
  readonly replyTo?: string | undefined
}

/** Celery's result back end. Every `expires` is a time to live in seconds. All methods fail with `TransportError`. */
export interface CeleryResults {
  /** Reads results, in the order of their keys; `undefined` for one that is not stored. */
  read(keys: ReadonlyArray<string>): Promise<ReadonlyArray<Uint8Array | undefined>>
  /** Stores results, and notifies the clients that wait for them. */
  write(results: ReadonlyArray<KeptResult>, expires: number): Promise<void>
  /**
   * Calls the listener with each of these results that is written, until the signal fires. Resolves once it is subscribed.
   */
  watch(keys: ReadonlyArray<string>, listener: (result: KeptResult) => void, signal: AbortSignal): Promise<void>
  /** Counters of chords. Absent: the back end has no chords. */
  readonly chords?: CeleryChords
  /** Resolves with the queue from which this process reads results. Absent: the back end stores results. */
  replyTo?(): Promise<string>
  close(): Promise<void>
}

/** Counters of chords. Every `expires` is a time to live in seconds. All methods fail with `TransportError`. */
export interface CeleryChords {
  /**
   * Notes that a member of a chord has ended. The same member is counted once, however often this is called. Resolves with
   * how many members have ended and how many there are.
   */
  count(member: ChordMember, expires: number): Promise<ChordCount>
  /** The values that were noted for the members that have ended, in the order of their indexes. */
  members(group: string): Promise<ReadonlyArray<Uint8Array>>
  /** Sets how many members a chord has. Must be called before the last member is submitted. */
  expect(group: string, size: number, expires: number): Promise<void>
  /** Removes the counters of a chord. */
  forget(group: string): Promise<void>
}

export interface ChordMember {
  /** Id of the group that is the header of the chord. */
  readonly group: string
  readonly id: string
  /** Position of the member in the group, from 0. A member that a task has added later has none, and comes last. */
  readonly index: number | null
  /** The outcome of the member, from which the input of the chord's body is made. */
  readonly value: Uint8Array
}

export interface ChordCount {
  readonly ended: number
  /** Number of members; `undefined` where it was never set, or the body was submitted already. */
  readonly size: number | undefined
}
