/**
 * What a plugin offers beside its driver, for Callboard to stand among clients and workers of Celery: messages to all of them,
 * and the back end in which they keep results. Absent: tasks of Celery's clients run, and their results are not written.
 */
import type { Message } from "../protocol/message.ts"
import type { ConnectOptions } from "./driver.ts"

export interface CeleryPlugin {
  /** What the broker at this URL carries beside tasks: commands, answers, events. */
  messages?(url: URL, options: CeleryConnectOptions): Promise<CeleryMessages>
  /** The results that are kept at this URL. */
  results?(url: URL, options: CeleryConnectOptions): Promise<CeleryResults>
}

export type CeleryConnectOptions = Pick<ConnectOptions, "namespace" | "name" | "timeout">

/** Messages that are not tasks. All methods fail with `TransportError`. Listening goes on after an outage. */
export interface CeleryMessages {
  /** To all that listen at this moment. */
  broadcast(exchange: string, routingKey: string, message: Message): Promise<void>
  /** Calls the listener with what is broadcast until the signal fires; resolves once it listens. */
  listen(exchange: string, listener: (message: Message) => void, signal: AbortSignal): Promise<void>
  /** To the queues that are bound to a direct exchange with this key; nowhere where there is none. */
  send(exchange: string, routingKey: string, message: Message): Promise<void>
  /** Binds a queue of this process, and calls the listener with what comes until the signal fires; then the queue is removed. */
  receive(
    binding: { readonly exchange: string; readonly routingKey: string; readonly queue: string },
    listener: (message: Message) => void,
    signal: AbortSignal,
  ): Promise<void>
  close(): Promise<void>
}

/** A result that is to be kept. */
export interface KeptResult {
  readonly key: string
  readonly value: Uint8Array
}

/** Results of tasks and counters of chords. All methods fail with `TransportError`. */
export interface CeleryResults {
  read(keys: ReadonlyArray<string>): Promise<ReadonlyArray<Uint8Array | undefined>>
  /** Keeps results for so many seconds, and tells those that wait. */
  write(results: ReadonlyArray<KeptResult>, expires: number): Promise<void>
  /** Calls the listener when one of these results is written, until the signal fires; resolves once it listens. */
  watch(keys: ReadonlyArray<string>, listener: (result: KeptResult) => void, signal: AbortSignal): Promise<void>
  /** Notes that a member of a chord has ended, once however often that is said, and answers how many have and how many are to. */
  count(member: ChordMember, expires: number): Promise<ChordCount>
  /** What was noted about the members, in their order. */
  members(group: string): Promise<ReadonlyArray<Uint8Array>>
  /** Sets how many members a chord has, before the last of them is submitted. */
  expect(group: string, size: number, expires: number): Promise<void>
  /** Removes the counters of a chord. */
  forget(group: string): Promise<void>
  close(): Promise<void>
}

export interface ChordMember {
  readonly group: string
  readonly index: number
  /** What the body of the chord will get of it. */
  readonly value: Uint8Array
}

export interface ChordCount {
  readonly ended: number
  /** `undefined`: the size was never set, or the body was submitted already. */
  readonly size: number | undefined
}
