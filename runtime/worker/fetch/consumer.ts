/**
 * Pulls what the hands can hold, and nothing more. An unreachable transport is tried again with growing waits; the
 * tasks that run go on meanwhile.
 */
import { Cause, Effect } from "effect"
import type { Connectivity } from "../../connection/connectivity.ts"
import { asTransportError } from "../../errors.ts"
import type { Log } from "../../log/log.ts"
import { isExhausted, type ReconnectPolicy, reconnectDelay, retryNotice } from "../../options/reconnect.ts"
import type { JobDelivery, Jobs, PullRequest } from "../../transport/lift/transport.ts"
import { TransportError } from "../../transport/mod.ts"
import type { DeliveryBuffer } from "./delivery-buffer.ts"
import { PullSizer } from "./pull-sizer.ts"
import type { QueueSubscription } from "./queue-subscription.ts"

export interface ConsumerOptions {
  readonly jobs: Jobs
  readonly subscription: QueueSubscription
  /** Stop when there is nothing to do: pulls wait for nothing then but for what is known to come back. */
  readonly burst: boolean
  /** With `burst`: how long tasks may still come that were put off, in milliseconds; 0: none will, or something is in hand. */
  readonly returningMs: () => number
  readonly rotate: boolean
  readonly buffer: DeliveryBuffer
  readonly log: Log
  readonly connectivity: Connectivity
  readonly reconnect: ReconnectPolicy
  readonly accept: (deliveries: ReadonlyArray<JobDelivery>) => void
  /** Whether more may be queued any moment by this worker itself: nothing that is found to be empty is so for good. */
  readonly isBusy: () => boolean
  /** The transport was lost and is back; nothing was pulled since. */
  readonly onReturned: () => void
  /** Whether it consumes now: what readiness shows. */
  readonly onListening: (listening: boolean) => void
  /** A pull that did not wait has found nothing, or nothing may be pulled. */
  readonly onEmpty: () => void
}

/** Longest wait of one pull: bounds how long a transport may stay silent. */
const PULL_WAIT_MS = 20_000
const IDLE_WAIT_MS = 1_000
/** Between two looks of a worker that ends when nothing is left, while its last tasks run. */
const BURST_PAUSE_MS = 50
/** Runs until interrupted; fails with the transport's error when it gives up, or cannot ever work. */
export const consume = (options: ConsumerOptions): Effect.Effect<never, TransportError> =>
  Effect.gen(function* () {
    const { subscription, buffer, log, connectivity, reconnect } = options
    /** In a row. */
    let failures = 0
    /** Whether the transport has answered since it was last lost: only then this consumes. */
    let answers = false
    let lost = false
    const pullSizer = new PullSizer(buffer)
    const answered = () => {
      if (failures > 0) log.info("connected again")
      failures = 0
      answers = true
      options.onListening(true)
    }
    while (true) {
      if (answers)
        yield* Effect.promise((signal) => connectivity.whileConnected(signal, (either) => buffer.waitForRoom(either)))
      if (connectivity.acknowledgeLoss()) {
        lost = true
        answers = false
        options.onListening(false)
      }
      if (lost && connectivity.connected) {
        lost = false
        options.onReturned()
      }
      const { version, queues, waitsForActors } = subscription
      // What somebody changes ends the pull that is under way: a queue that was paused must not be pulled from any more.
      // So does the loss of the transport.
      const changed = Effect.promise((signal) =>
        connectivity.whileConnected(signal, (either) => subscription.changedSince(version, either)),
      )
      if (queues.length === 0 && !lost) {
        answered()
        if (options.burst) options.onEmpty()
        yield* waitsForActors || options.burst ? Effect.raceFirst(changed, Effect.sleep(IDLE_WAIT_MS)) : changed
        continue
      }
      const max = pullSizer.nextSize
      // A handler got stuck since: there is no room after all.
      if (max < 1 && answers) continue
      // The first pull waits for nothing, so that it tells soon whether there is an answer. With a queue left out the
      // wait is short: its actor may be back any moment.
      const longest = options.burst ? Math.min(options.returningMs(), PULL_WAIT_MS) : PULL_WAIT_MS
      const wait = !answers ? 0 : waitsForActors ? Math.min(IDLE_WAIT_MS, longest) : longest
      const wasEmpty = buffer.inFlight.size === 0 && !options.isBusy()
      const request = { queues, max, wait, rotate: options.rotate }
      const pulled = yield* Effect.result(
        lost
          ? Effect.fail(new TransportError("unavailable", connectivity.why?.message ?? LOST))
          : Effect.raceFirst(pull(options, request), Effect.as(changed, undefined)),
      )
      // A pull that the loss has ended is no answer.
      if (connectivity.wasLost) continue
      if (pulled._tag === "Success") {
        answered()
        if (buffer.isCrowded) yield* Effect.promise((signal) => pullSizer.pulled(pulled.success ?? 0, max, signal))
        if (options.burst && pulled.success === 0) {
          if (wasEmpty) options.onEmpty()
          yield* Effect.sleep(BURST_PAUSE_MS)
        }
        continue
      }
      const error = pulled.failure
      answers = false
      options.onListening(false)
      failures++
      if (!reconnect.enabled || !mayPass(error) || isExhausted(failures, reconnect)) return yield* Effect.fail(error)
      const delay = reconnectDelay(failures, reconnect)
      log.warn(retryNotice(error, delay, failures, reconnect))
      yield* Effect.promise((signal) => connectivity.untilConnected(delay, signal))
    }
  })

/** Why the consumer ended by itself; nothing when it was stopped. */
export const failureOf = (cause: Cause.Cause<TransportError>): TransportError | undefined => {
  const failed = cause.reasons.find((reason) => reason._tag === "Fail")
  if (failed?._tag === "Fail") return failed.error
  const died = cause.reasons.find((reason) => reason._tag === "Die")
  return died === undefined ? undefined : new TransportError("internal", Cause.pretty(cause))
}

const LOST = "the connection to the transport is lost"

/** Whether trying again may help: also after a fault of the plugin or the broker, which need not come again. */
const mayPass = (error: TransportError): boolean => error.retryable || error.reason === "internal"

/**
 * One pull, and what it brings handed over: in here, since a worker that is stopped in that very moment would leave it
 * lying until its lease is over. With full hands there is nothing to ask for, and the transport's word has to do.
 */
const pull = ({ jobs, accept }: ConsumerOptions, request: PullRequest): Effect.Effect<number, TransportError> =>
  Effect.tryPromise({
    try: async (signal) => {
      if (request.max < 1) return 0
      const deliveries = await jobs.take(request, signal)
      accept(deliveries)
      return deliveries.length
    },
    catch: asTransportError,
  })
