/**
 * Pulls what the hands can hold, and nothing more. An unreachable transport is tried again with growing waits; the
 * tasks that run go on meanwhile.
 */
import { Effect } from "effect"
import { asTransportError } from "../errors.ts"
import type { Log } from "../log.ts"
import type { Delivery, PullRequest, Queue, TransportError } from "../transport.ts"
import type { Appetite } from "./appetite.ts"
import type { Hands } from "./hands.ts"

export interface ConsumerOptions {
  readonly queue: Queue
  readonly appetite: Appetite
  /** Stop when there is nothing to do: pulls do not wait then. */
  readonly burst: boolean
  readonly rotate: boolean
  readonly hands: Hands
  readonly log: Log
  /** Tries in a row after which the worker gives up; 0 is for ever. */
  readonly maxTries: number
  readonly accept: (deliveries: ReadonlyArray<Delivery>) => void
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
const FIRST_WAIT_MS = 250
const LONGEST_WAIT_MS = 10_000

/** Runs until interrupted; fails with the transport's error when it gives up, or cannot ever work. */
export const consume = (options: ConsumerOptions): Effect.Effect<never, TransportError> =>
  Effect.gen(function* () {
    const { appetite, hands, log } = options
    let failures = 0
    while (true) {
      yield* Effect.promise((signal) => hands.waitForRoom(signal))
      const { version, queues, waitsForActors } = appetite
      // What somebody changes ends the pull that is under way: a queue that was paused must not be pulled from any more.
      const changed = Effect.promise((signal) => appetite.changedSince(version, signal))
      if (queues.length === 0) {
        options.onListening(true)
        if (options.burst) options.onEmpty()
        yield* waitsForActors || options.burst ? Effect.raceFirst(changed, Effect.sleep(IDLE_WAIT_MS)) : changed
        continue
      }
      // With a queue left out the wait is short: its actor may be back any moment.
      const wait = options.burst ? 0 : waitsForActors ? IDLE_WAIT_MS : PULL_WAIT_MS
      const max = hands.free
      // A handler got stuck since: there is no room after all.
      if (max < 1) continue
      const wasEmpty = hands.held.size === 0
      const request = { queues, max, wait, rotate: options.rotate }
      const pulled = yield* Effect.result(Effect.raceFirst(pull(options, request), Effect.as(changed, undefined)))
      if (pulled._tag === "Success") {
        if (failures > 0) log.info("connected again")
        failures = 0
        if (options.burst && pulled.success === 0) {
          if (wasEmpty) options.onEmpty()
          yield* Effect.sleep(BURST_PAUSE_MS)
        }
        continue
      }
      const error = pulled.failure
      options.onListening(false)
      failures++
      const givesUp = !mayPass(error) || (options.maxTries > 0 && failures > options.maxTries)
      if (givesUp) return yield* Effect.fail(error)
      const pause = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (failures - 1)) * (0.5 + Math.random() / 2)
      const tries = options.maxTries > 0 ? `${failures}/${options.maxTries}` : `${failures}`
      log.warn(`${error.message}. Trying again in ${(pause / 1000).toFixed(2)} seconds… (${tries})`)
      yield* Effect.sleep(pause)
    }
  })

/** Whether trying again may help: also after a fault of the plugin or the broker, which need not come again. */
const mayPass = (error: TransportError): boolean => error.retryable || error.reason === "internal"

/**
 * One pull, and what it brings handed over: in here, since a worker that is stopped in that very moment would leave it
 * lying until its lease is over. It counts as listening once it has been under way for a moment, or has answered: a pull that fails does so
 * at once.
 */
const pull = (options: ConsumerOptions, request: PullRequest): Effect.Effect<number, TransportError> =>
  Effect.tryPromise({
    try: async (signal) => {
      const listening = setTimeout(() => options.onListening(true), 20)
      try {
        const deliveries = await options.queue.pull(request, signal)
        options.onListening(true)
        options.accept(deliveries)
        return deliveries.length
      } finally {
        clearTimeout(listening)
      }
    },
    catch: asTransportError,
  })
