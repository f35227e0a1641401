/**
 * The base class of all drivers, also of those without a connection. Calls after `close` fail with `closed`, subscriptions
 * end with their signal or with the driver, news and announcements go to their listeners, and queues are rotated.
 */
import { decodeBase64, encodeBase64 } from "../protocol/exact.ts"
import { checkOperation, checkTopic } from "./checks.ts"
import type { Capabilities, ConnectOptions, Delivery, Interest, News, TakeRequest } from "./driver.ts"
import { explainUnknown, TransportError } from "./errors.ts"
import type { Broadcast } from "./optional.ts"
import type { Store } from "./store.ts"

export interface Failed {
  readonly status: "failed"
  readonly error: TransportError
}

export abstract class PlainDriver {
  abstract readonly capabilities: Capabilities
  protected readonly options: ConnectOptions
  protected readonly closing = new AbortController()
  readonly #listeners = new Set<{ readonly interest: Interest; readonly listener: (news: News) => void }>()
  readonly #topics = new Set<{ readonly topic: string; readonly listener: (payload: Uint8Array) => void }>()
  /** The parts of an announcement that have arrived so far, while its last part is missing. */
  #announced = ""
  /** Queue of the last delivery; with `rotate` the next take begins after it. */
  #served = ""

  constructor(options: ConnectOptions) {
    this.options = options
  }

  /** Fails with `closed` once the driver was closed. */
  protected assertOpen(): void {
    if (this.closing.signal.aborted) throw new TransportError("closed", "this transport was closed")
  }

  /** Adds an entry to a set, and removes it when the signal fires or the driver is closed. */
  protected subscribe<T>(set: Set<T>, entry: T, signal: AbortSignal): void {
    this.assertOpen()
    if (signal.aborted) return
    set.add(entry)
    const stop = () => set.delete(entry)
    AbortSignal.any([signal, this.closing.signal]).addEventListener("abort", stop, { once: true })
  }

  async listen(interest: Interest, listener: (news: News) => void, signal: AbortSignal): Promise<void> {
    this.subscribe(this.#listeners, { interest, listener }, signal)
  }

  /** Calls all listeners whose interest the news match. */
  protected emit(news: News): void {
    for (const { interest, listener } of this.#listeners) {
      const isWanted =
        news.kind === "missed" ||
        (news.kind === "queue" && interest.kind === "queues" && interest.queues.includes(news.queue)) ||
        (news.kind === "job" && (interest.kind === "jobs" || (interest.kind === "job" && interest.id === news.id)))
      if (isWanted) listener(news)
    }
  }

  /**
   * Makes the {@link Broadcast} of a driver. `send` has to carry an announcement to every driver on the broker, the own
   * one included; each of them passes it on with {@link emitAnnouncement}.
   */
  protected createBroadcast(send: (topic: string, payload: Uint8Array) => Promise<unknown>): Broadcast {
    return {
      send: async (topic, payload) => {
        this.assertOpen()
        checkTopic(topic, payload)
        await send(topic, payload)
      },
      listen: async (topic, listener, signal) => {
        checkTopic(topic)
        this.subscribe(this.#topics, { topic, listener }, signal)
      },
    }
  }

  /**
   * Makes the {@link Broadcast} of a driver over messages of text that are short: a longer announcement is sent in parts of
   * `max` characters and a few more. They have to arrive in order, with no part of another announcement in between; the
   * driver passes each of them on with {@link emitPart}.
   */
  protected createBroadcastInParts(max: number, send: (parts: ReadonlyArray<string>) => Promise<unknown>): Broadcast {
    return this.createBroadcast((topic, payload) => {
      const text = `${topic} ${encodeBase64(payload)}`
      const last = Math.ceil(text.length / max) - 1
      return send(Array.from({ length: last + 1 }, (_, at) => `${at} ${last} ${text.slice(at * max, (at + 1) * max)}`))
    })
  }

  protected emitPart(part: string): void {
    const [, at, last, text] = /^(\d+) (\d+) (.*)$/.exec(part) ?? []
    if (at === undefined) return
    // After a lost connection the rest of an announcement never comes.
    this.#announced = (at === "0" ? "" : this.#announced) + text
    if (at !== last) return
    const [topic = "", payload = ""] = this.#announced.split(" ")
    this.emitAnnouncement(topic, decodeBase64(payload))
  }

  protected emitAnnouncement(topic: string, payload: Uint8Array): void {
    for (const each of this.#topics) if (each.topic === topic) each.listener(payload.slice())
  }

  /** Makes the store of a driver: operations that are invalid are refused without asking the broker. */
  protected createStore(store: Store): Store {
    return {
      ...store,
      write: async (operations) => {
        this.assertOpen()
        for (const operation of operations) checkOperation(operation, this.capabilities)
        return store.write(operations)
      },
    }
  }

  /** The queues of a take in the order to ask them. With `rotate` it begins after the queue of the last delivery. */
  protected rotated({ queues, rotate }: TakeRequest): ReadonlyArray<string> {
    const first = rotate ? queues.indexOf(this.#served) + 1 : 0
    return [...queues.slice(first), ...queues.slice(0, first)]
  }

  protected rotateAfter(deliveries: ReadonlyArray<Delivery>): void {
    this.#served = deliveries.at(-1)?.queue ?? this.#served
  }
}

/** Answers item by item. An item whose answer throws fails alone. */
export const answerEach = <I, A>(items: ReadonlyArray<I>, answer: (item: I) => A): ReadonlyArray<A | Failed> =>
  items.map((item) => {
    try {
      return answer(item)
    } catch (error) {
      return { status: "failed", error: asError(error) }
    }
  })

/** Prepares items and sends them in one call. An item whose preparation throws fails alone, and the others are answered. */
export const answerTogether = async <I, P, A>(
  items: ReadonlyArray<I>,
  prepare: (item: I) => P,
  send: (prepared: ReadonlyArray<P>) => Promise<ReadonlyArray<A>>,
): Promise<ReadonlyArray<A | Failed>> => {
  const prepared: Array<P> = []
  const refused = answerEach(items, (item): Failed | undefined => void prepared.push(prepare(item)))
  const answers = prepared.length === 0 ? [] : await send(prepared)
  let next = 0
  return refused.map((failed) => failed ?? answers[next++] ?? { status: "failed", error: tooFewAnswers() })
}

export const tooFewAnswers = (): TransportError => new TransportError("internal", "the driver returned too few answers")

export const asError = (thrown: unknown): TransportError =>
  thrown instanceof TransportError ? thrown : explainUnknown(thrown)
