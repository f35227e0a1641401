/**
 * Pulls as many deliveries as the buffer can take, and fewer while tasks wait for limits. An unreachable transport is
 * tried again after growing waits, while running handlers go on.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type { Connectivity } from "../../connection/connectivity.ts"
import { asTransportError } from "../../errors.ts"
import type { Log } from "../../log/log.ts"
import { isExhausted, type ReconnectPolicy, reconnectDelay, retryNotice } from "../../options/reconnect.ts"
import type { JobDelivery, Jobs, TakeOptions } from "../../transport/job-store/transport.ts"
import { TransportError } from "../../transport/mod.ts"
import { MAX_TIMER_MS, nextTurn, sleep } from "../../transport/timers.ts"
import type { DeliveryBuffer } from "./delivery-buffer.ts"
import { freeIfLimitedOf, freeOf, isCrowded, limitCapacityOf, pullSize } from "./pull-size.ts"
import type { QueueSubscription } from "./queue-subscription.ts"

export interface ConsumerOptions {
  readonly jobs: Jobs
  readonly subscription: QueueSubscription
  /**
   * Whether the worker ends when its queues are empty. Pulls then wait only for deferred tasks that are known to come
   * back.
   */
  readonly burst: boolean
  /**
   * With `burst`: milliseconds for which deferred tasks may still come back; 0: none will, or the buffer is not empty.
   */
  readonly returningMs: () => number
  readonly rotate: boolean
  /** With `rotate`: each queue that has tasks is as likely as the others. Defaults to false. */
  readonly random?: boolean
  readonly buffer: DeliveryBuffer
  /** Gets each pull until it has passed on what it brings, also where its wait was cut. */
  readonly pulls: Set<Promise<unknown>>
  readonly log: Log
  readonly connectivity: Connectivity
  readonly reconnect: ReconnectPolicy
  readonly accept: (deliveries: ReadonlyArray<JobDelivery>) => void
  /** Whether this worker may itself queue more tasks at any moment, so that empty queues need not stay empty. */
  readonly isBusy: () => boolean
  /** Called when a lost connection is back, before the next pull. */
  readonly onReturned: () => void
  /** Called when the worker starts or stops consuming, which readiness shows. */
  readonly onListening: (listening: boolean) => void
  /** Called when a pull without a wait found nothing, or when nothing may be pulled. */
  readonly onEmpty: () => void
}

/** Longest wait of one pull. It bounds how long a transport may stay silent. */
const PULL_WAIT_MS = 20_000
const IDLE_WAIT_MS = 1_000
/** Pause between two pulls of a `burst` worker whose queues are empty while its last handlers run. */
const BURST_PAUSE_MS = 50

/** Consumes until interrupted. Fails with the transport's error when reconnecting is given up, or cannot help. */
export const consume = (options: ConsumerOptions): Effect.Effect<void, TransportError> =>
  Effect.tryPromise({ try: (signal) => consuming(options, signal), catch: asTransportError })

const consuming = async (options: ConsumerOptions, stop: AbortSignal): Promise<void> => {
  const { subscription, buffer, pulls, log, connectivity, reconnect } = options
  /** Failed pulls in a row. */
  let failures = 0
  /** Whether the transport has answered since the connection was last lost. Only then does the worker consume. */
  let answers = false
  let lost = false
  const pullSizer = new PullSizer(buffer)
  const interruption = new Interruption(connectivity, subscription, stop)
  const answered = () => {
    if (failures > 0) log.info("connected again")
    failures = 0
    answers = true
    options.onListening(true)
  }
  while (!stop.aborted) {
    if (answers) await buffer.waitForRoom(interruption.signal)
    if (connectivity.acknowledgeLoss()) {
      lost = true
      answers = false
      options.onListening(false)
    }
    if (lost && connectivity.connected) {
      lost = false
      options.onReturned()
    }
    interruption.renew()
    const { queues, waitsForActors } = subscription
    if (queues.length === 0 && !lost) {
      answered()
      if (options.burst && !subscription.isFull) options.onEmpty()
      await sleep(waitsForActors || options.burst ? IDLE_WAIT_MS : MAX_TIMER_MS, interruption.signal)
      continue
    }
    const max = pullSizer.nextSize
    // A handler got stuck meanwhile, so there is no room after all.
    if (max < 1 && answers) continue
    // The first pull does not wait, so that it shows soon whether the transport answers. While a queue is left out
    // because its actors are unhealthy, the wait is short, since they may recover at any moment.
    const longest = options.burst ? Math.min(options.returningMs(), PULL_WAIT_MS) : PULL_WAIT_MS
    const wait = !answers ? 0 : waitsForActors ? Math.min(IDLE_WAIT_MS, longest) : longest
    // A pull whose wait was cut may still bring what the next one does not find any more.
    const wasEmpty = buffer.held.size === 0 && pulls.size === 0 && !options.isBusy()
    try {
      if (lost) throw new TransportError("unavailable", connectivity.why?.message ?? LOST)
      // The transport's turns would decide, where the buffer gets one task at a time to choose from.
      const draws = options.random === true && max === 1
      const request = draws
        ? { queues: shuffled(queues), max, wait, rotate: false }
        : { queues, max, wait, rotate: options.rotate }
      const pulling = pull(options, request, interruption.signal)
      const forget = () => pulls.delete(pulling)
      pulls.add(pulling)
      pulling.then(forget, forget)
      const pulled = await interruption.cut(pulling)
      // A pull that was ended by the loss of the connection, or by a change of the queues, is no answer.
      if (connectivity.wasLost || stop.aborted || (pulled === undefined && !answers)) continue
      answered()
      if (isCrowded(buffer.state)) await pullSizer.pulled(pulled ?? 0, max, stop)
      if (options.burst && pulled === 0) {
        if (wasEmpty) options.onEmpty()
        await sleep(BURST_PAUSE_MS, stop)
      }
    } catch (cause) {
      if (connectivity.wasLost || stop.aborted) continue
      const error = asTransportError(cause)
      answers = false
      options.onListening(false)
      failures++
      if (!reconnect.enabled || !mayPass(error) || isExhausted(failures, reconnect)) throw error
      const delay = reconnectDelay(failures, reconnect)
      log.warn(retryNotice(error, delay, failures, reconnect))
      await connectivity.untilConnected(delay, stop)
    }
  }
}

/** The same in an order of which each is as likely as the others. */
const shuffled = (queues: ReadonlyArray<string>): ReadonlyArray<string> =>
  queues
    .map((queue) => ({ queue, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ queue }) => queue)

/**
 * Ends a pull or a wait early: when the worker stops, when the connection is lost, and when the subscription changes, because
 * a queue that was paused must not be pulled from any more. One signal serves all pulls until it has fired: making and
 * firing one for each pull takes longer than sending its request.
 */
class Interruption {
  readonly #stop: AbortSignal
  #controller = new AbortController()
  #cut: (() => void) | undefined

  constructor(connectivity: Connectivity, subscription: QueueSubscription, stop: AbortSignal) {
    this.#stop = stop
    const fire = () => {
      // Without a reason, `abort` makes an exception with its stack.
      this.#controller.abort(INTERRUPTED)
      this.#cut?.()
    }
    const ignore = [connectivity.onLost(fire), subscription.onChange(fire)]
    const end = () => {
      for (const each of ignore) each()
      fire()
    }
    if (stop.aborted) end()
    else stop.addEventListener("abort", end, { once: true })
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** To be called once what has changed was looked at. */
  renew(): void {
    if (this.signal.aborted && !this.#stop.aborted) this.#controller = new AbortController()
  }

  /** Settles as the promise does, or with `undefined` as soon as the signal fires. */
  cut<A>(promise: Promise<A>): Promise<A | undefined> {
    return new Promise((resolve, reject) => {
      this.#cut = () => resolve(undefined)
      if (this.signal.aborted) resolve(undefined)
      promise.then(resolve, reject)
    })
  }
}

const INTERRUPTED = "the worker is stopping, its queues changed, or the connection was lost"

/** The error that ended the consumer; `undefined` when it was stopped. */
export const failureOf = (cause: Cause.Cause<TransportError>): TransportError | undefined => {
  const failed = cause.reasons.find((reason) => reason._tag === "Fail")
  if (failed?._tag === "Fail") return failed.error
  const died = cause.reasons.find((reason) => reason._tag === "Die")
  return died === undefined ? undefined : new TransportError("internal", Cause.pretty(cause))
}

const LOST = "the connection to the transport is lost"

/**
 * Whether another attempt may help. That includes internal errors of the plugin or the broker, which may not occur
 * again.
 */
const mayPass = (error: TransportError): boolean => error.retryable || error.reason === "internal"

/**
 * Pulls and passes the deliveries on, both in one step: if the worker were stopped in between, the deliveries would wait
 * until their leases expire. While pulls are answered in full, the next one is sent before the deliveries are passed on, so
 * that the broker works at the same time as the handlers. With a full buffer nothing is pulled, and only the transport's
 * status is known. Returns how many deliveries the last pull brought.
 */
const pull = async (options: ConsumerOptions, request: TakeOptions, signal: AbortSignal): Promise<number> => {
  const { jobs, buffer, accept, burst } = options
  if (request.max < 1) return 0
  let asked = request.max
  let deliveries = await jobs.take(request, signal)
  while (deliveries.length === asked && !burst && !signal.aborted) {
    const max = pullSize(buffer.state, false, asked)
    if (max === 0) break
    const next = jobs.take({ ...request, max, wait: 0 }, signal)
    next.catch(() => undefined)
    // The request leaves the process at the end of this turn.
    await nextTurn()
    accept(deliveries)
    asked = max
    deliveries = await next
  }
  accept(deliveries)
  return deliveries.length
}

/** Pause that collects deferred tasks, which come back in small groups, into one pull. */
const TOGETHER_MS = 25
/** Time per task that a pull is worth, including its pause, if all its tasks have to wait. */
const IN_VAIN_MS = 0.5
/** Time per task while the buffer has just become crowded, or moves so fast that a quarter of it is free by then. */
const MOVING_MS = 1.25
/** Longest time between two pulls that look behind the waiting tasks. */
const LOOK_MS = 1_000

/**
 * Decides how much to pull while tasks wait for limits. Mostly no more than the buffer can keep even if all new tasks
 * have to wait, so that few are given back. Now and then as much as there are free slots, because tasks without a limit
 * may be queued behind those that have to wait.
 */
export class PullSizer {
  readonly #buffer: DeliveryBuffer
  #askedAt = 0
  #delayed = 0
  #granted = 0
  /** Time of the last pull that looked behind the waiting tasks. */
  #lookedAt = 0
  /** Time when the buffer was last not crowded. */
  #thinAt = 0

  constructor(buffer: DeliveryBuffer) {
    this.#buffer = buffer
  }

  /** Number of deliveries that the next pull asks for. */
  get nextSize(): number {
    const buffer = this.#buffer
    const now = performance.now()
    this.#askedAt = now
    this.#delayed = buffer.delayed
    this.#granted = buffer.granted
    const { state } = buffer
    const looks = isCrowded(state) || now - this.#lookedAt >= LOOK_MS
    if (!isCrowded(state)) this.#thinAt = now
    if (looks || freeIfLimitedOf(state) === freeOf(state)) this.#lookedAt = now
    return pullSize(state, looks)
  }

  /** Called after a pull while the buffer is crowded. Resolves when the next pull is worth its cost. */
  async pulled(count: number, asked: number, signal: AbortSignal): Promise<void> {
    const buffer = this.#buffer
    if (count >= asked) buffer.pulled(count, this.#passed)
    const inVain = buffer.delayed - this.#delayed >= count ? count * IN_VAIN_MS - this.#passed : 0
    const pause = Math.max(inVain, count < asked ? TOGETHER_MS : 0)
    if (pause <= 0) return
    do await buffer.whenUncrowded(pause, signal)
    while (
      inVain > 0 &&
      count >= asked &&
      isCrowded(buffer.state) &&
      this.#isMoving(count * MOVING_MS) &&
      !signal.aborted
    )
  }

  get #passed(): number {
    return performance.now() - this.#askedAt
  }

  /** Whether the crowd formed within `ms`, or will be gone by then. */
  #isMoving(ms: number): boolean {
    const { granted, state } = this.#buffer
    if (performance.now() - this.#thinAt < ms) return true
    return this.#passed < ms && granted - this.#granted >= (0.25 * limitCapacityOf(state) * this.#passed) / ms
  }
}
