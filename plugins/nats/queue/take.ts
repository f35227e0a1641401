/**
 * Takes tasks by queue, then priority, then age, as each call finds them: a lane is fetched only when those above it
 * have no more. A call that finds no task waits with a request parked on each lane. Tasks that come too many or too
 * late are returned.
 *
 * The client's own `consume` and `fetch` are not used (nats 2.29.3): they stall for seconds when a consumer changes its
 * leader, know neither `no_wait` nor order, and lose the messages in their buffer when they are drained.
 */
import { createInbox } from "nats"
import type { Delivery, TakeRequest } from "../../../runtime/transport/driver.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import { sleep } from "../../../runtime/transport/timers.ts"
import { closed } from "../connection/answers.ts"
import type { NatsLink } from "../connection/link.ts"
import type { ServerClock } from "../connection/server-clock.ts"
import { PendingNaks } from "./acks.ts"
import type { Consumers } from "./consumers.ts"
import type { DeliveryFactory } from "./delivery.ts"
import type { DeliveryTracker } from "./lease.ts"
import { type Arrival, byPriority, type LaneRange, PullSession, roundRobin } from "./pull-session.ts"
import type { StallGuard } from "./stall-guard.ts"

/**
 * How long an idle session keeps its parked requests for the next `take`. Longer, and tasks would wait for a worker
 * that is busy.
 */
const KEEP_IDLE_MS = 5

/**
 * How long a `take` that has found no task parks requests at least, even if it does not wait: a consumer may not know
 * yet of a task that was accepted, and reads the stream only for a request that may wait.
 */
const MIN_PARK_MS = 50

/** Pause before a consumer that does not answer is asked again. */
const RETRY_MS = 100

/** How long a `take` tolerates consumers that do not answer; a change of leader takes a moment. */
const MAX_FAILING_MS = 1_000

interface Idle {
  readonly session: PullSession
  readonly timer: ReturnType<typeof setTimeout>
}

export interface TakerParts {
  readonly link: NatsLink
  readonly deliveryFactory: DeliveryFactory
  readonly consumers: Consumers
  readonly tracker: DeliveryTracker
  readonly stallGuard: StallGuard
  readonly clock: ServerClock
}

export class Taker {
  readonly #parts: TakerParts
  readonly #inbox = createInbox()
  /** Sessions without a `take`, by the queues that they pull from. */
  readonly #idle = new Map<string, Array<Idle>>()
  /** With `rotate`: index of the queue to begin with. */
  readonly #nextQueue = new Map<string, number>()
  /** Sessions of calls that are under way. */
  readonly #running = new Set<PullSession>()
  readonly #ending = new Set<Promise<void>>()
  readonly #naks: PendingNaks
  #sessions = 0

  constructor(parts: TakerParts) {
    this.#parts = parts
    this.#naks = new PendingNaks(parts.link)
    const interrupt = (): void => {
      for (const session of this.#running) session.interrupt()
    }
    parts.link.closing.addEventListener("abort", interrupt, { once: true })
  }

  /**
   * Fails with `unavailable` when the server is out of reach to the end, or a consumer does not answer for a second;
   * `closed` after the transport was closed.
   */
  async take(request: TakeRequest, signal: AbortSignal): Promise<ReadonlyArray<Delivery>> {
    const { link, tracker, stallGuard } = this.#parts
    if (link.closing.aborted) throw closed()
    if (signal.aborted || request.max < 1 || request.queues.length === 0) return []
    stallGuard.start()
    const queues = [...new Set(request.queues)]
    const key = JSON.stringify(queues)
    const session = this.#openSession(key, queues)
    // `AbortSignal.any` is not used: its signals live as long as the longest of their sources.
    const interrupt = (): void => session.interrupt()
    signal.addEventListener("abort", interrupt)
    let found: ReadonlyArray<Arrival> = []
    this.#running.add(session)
    try {
      found = await this.#run(session, key, queues, request)
    } finally {
      this.#running.delete(session)
      signal.removeEventListener("abort", interrupt)
      if (session.interrupted || !link.connected) this.#end(session)
      else this.#keepIdle(key, session)
    }
    for (const { token, delivery } of found) tracker.add(token, delivery.deliveries > 1)
    return found.map(({ delivery }) => delivery)
  }

  /** Resolves when no task is held or on its way any more. Calls of {@link take} must have been interrupted before. */
  async close(): Promise<void> {
    for (const idles of this.#idle.values()) {
      for (const { session, timer } of idles) {
        clearTimeout(timer)
        this.#end(session)
      }
    }
    this.#idle.clear()
    while (this.#running.size > 0 || this.#ending.size > 0) {
      await Promise.all(this.#ending)
      await sleep(0)
    }
  }

  async #run(
    session: PullSession,
    key: string,
    queues: ReadonlyArray<string>,
    { max, wait, rotate }: TakeRequest,
  ): Promise<ReadonlyArray<Arrival>> {
    const { link, stallGuard } = this.#parts
    const rotates = rotate && queues.length > 1
    let end = performance.now() + wait
    let parked = false
    /** Since when a consumer has not answered. */
    let failingSince: number | undefined
    // A task that is being returned is in no answer of a consumer, and may be the one that should come first.
    const pendingNaks = this.#naks.settled
    if (pendingNaks !== undefined) await session.waitFor(pendingNaks)
    for (;;) {
      const now = performance.now()
      while (!link.connected && !session.interrupted && performance.now() < end) await session.nextEvent(end)
      const { resync } = stallGuard
      if (resync !== undefined) await session.waitFor(resync)
      if (!session.interrupted && link.connected) {
        try {
          const away = await session.ensure()
          if (rotates) await this.#fetchRoundRobin(session, key, queues.length, max)
          else await session.fetch({ from: 0, to: session.lanes }, max)
          // The tasks of a consumer that is away come when it is back: those of the others need not wait for it.
          if (away !== undefined && session.isEmpty) throw away
        } catch (error) {
          if (session.interrupted) return []
          // A consumer without a leader comes back: a `take` that waits tries again by itself.
          if (!(error instanceof TransportError && error.retryable) || performance.now() + RETRY_MS >= end) throw error
          failingSince ??= now
          if (link.connected && performance.now() - failingSince >= MAX_FAILING_MS) throw error
          await session.pause(RETRY_MS)
          continue
        }
        const { refusing } = session
        if (refusing === undefined) failingSince = undefined
        else failingSince ??= now
        if (
          refusing !== undefined &&
          session.isEmpty &&
          (performance.now() >= end || now - (failingSince ?? now) >= MAX_FAILING_MS)
        )
          throw new TransportError("unavailable", `the consumer ${refusing} does not answer`)
      }
      if (session.isEmpty && !session.interrupted && link.connected) {
        if (!parked) end = Math.max(end, performance.now() + MIN_PARK_MS)
        parked = true
        session.park()
        await session.nextEvent(end)
        // The thread may have stood still until the time was over: a task that the server sent meanwhile waits in the
        // socket, before the answer to this flush.
        if (session.isEmpty && performance.now() >= end) await session.waitFor(link.flush().catch(() => undefined))
      }
      // After an interrupt no task is delivered: the session returns those that came all the same.
      if (session.interrupted) return []
      const taken = rotates ? this.#takeRoundRobin(session, key, queues.length, max) : session.take(max, byPriority)
      if (taken.length > 0) return taken
      if (performance.now() < end) continue
      if (link.connected) return []
      throw new TransportError("unavailable", "not connected to the server")
    }
  }

  /**
   * Fetches a share from each queue. What some queues leave over is then shared by the queues that had a full share.
   */
  async #fetchRoundRobin(session: PullSession, key: string, count: number, max: number): Promise<void> {
    const first = this.#nextQueue.get(key) ?? 0
    const left = (): number => max - session.count({ from: 0, to: session.lanes })
    let open = Array.from({ length: count }, (_, at) => lanesOf(session, count, (first + at) % count))
    while (left() > 0 && open.length > 0) {
      const shares = open.map((lanes, at) => ({
        lanes,
        wanted: session.count(lanes) + Math.ceil((left() - at) / open.length),
      }))
      for (const { lanes, wanted } of shares) await session.fetch(lanes, wanted)
      open = shares.filter(({ lanes, wanted }) => session.count(lanes) >= wanted).map(({ lanes }) => lanes)
    }
  }

  /** Takes one task of each queue in turn, and notes where the next call begins. */
  #takeRoundRobin(session: PullSession, key: string, count: number, max: number): ReadonlyArray<Arrival> {
    const queueOf = (lane: number): number => Math.floor((lane * count) / session.lanes)
    const taken = session.take(max, (here) => roundRobin(here, queueOf, count, this.#nextQueue.get(key) ?? 0))
    const last = taken.at(-1)
    if (last !== undefined) this.#nextQueue.set(key, (queueOf(last.lane) + 1) % count)
    return taken
  }

  #openSession(key: string, queues: ReadonlyArray<string>): PullSession {
    const idles = this.#idle.get(key)
    const idle = idles?.pop()
    if (idles?.length === 0) this.#idle.delete(key)
    if (idle !== undefined) {
      clearTimeout(idle.timer)
      return idle.session
    }
    const { consumers } = this.#parts
    const lanes = queues.flatMap((queue) => consumers.lanesOf(queue))
    const prefix = `${this.#inbox}.${(this.#sessions++).toString(36)}`
    return new PullSession({ ...this.#parts, naks: this.#naks }, lanes, prefix)
  }

  #keepIdle(key: string, session: PullSession): void {
    const idles = this.#idle.get(key) ?? []
    if (!this.#idle.has(key)) this.#idle.set(key, idles)
    const timer = setTimeout(() => {
      const at = idles.findIndex((idle) => idle.session === session)
      if (at >= 0) idles.splice(at, 1)
      if (idles.length === 0) this.#idle.delete(key)
      this.#end(session)
    }, KEEP_IDLE_MS)
    idles.push({ session, timer })
  }

  #end(session: PullSession): void {
    const ending = session.end().finally(() => this.#ending.delete(ending))
    this.#ending.add(ending)
    this.#naks.track(ending)
  }
}

const lanesOf = (session: PullSession, queues: number, queue: number): LaneRange => {
  const each = session.lanes / queues
  return { from: queue * each, to: (queue + 1) * each }
}
