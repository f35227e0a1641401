/**
 * Pulls what the hands can hold, and nothing more. An unreachable transport is tried again with growing waits; the
 * tasks that run go on meanwhile.
 */
import { Effect } from "effect"
import { asTransportError } from "../errors.ts"
import type { Log } from "../log.ts"
import type { Delivery, PullRequest, Queue, TransportError } from "../transport.ts"
import type { Hands } from "./hands.ts"

export interface ConsumerOptions {
  readonly queue: Queue
  readonly queues: ReadonlyArray<string>
  /** Whether a queue is not worth pulling now: all its actors are unhealthy. */
  readonly isIdle: (queue: string) => boolean
  readonly rotate: boolean
  readonly hands: Hands
  readonly log: Log
  /** Tries in a row after which the worker gives up; 0 is for ever. */
  readonly maxTries: number
  readonly accept: (deliveries: ReadonlyArray<Delivery>) => void
  /** Whether it consumes now: what readiness shows. */
  readonly onListening: (listening: boolean) => void
}

/** Longest wait of one pull: bounds how long a transport may stay silent. */
const PULL_WAIT_MS = 20_000
const IDLE_WAIT_MS = 1_000
const FIRST_WAIT_MS = 250
const LONGEST_WAIT_MS = 10_000

/** Runs until interrupted; fails with the transport's error when it gives up, or cannot ever work. */
export const consume = (options: ConsumerOptions): Effect.Effect<never, TransportError> =>
  Effect.gen(function* () {
    const { hands, log } = options
    let failures = 0
    while (true) {
      yield* Effect.promise((signal) => hands.waitForRoom(signal))
      const queues = options.queues.filter((queue) => !options.isIdle(queue))
      if (queues.length === 0) {
        yield* Effect.sleep(IDLE_WAIT_MS)
        continue
      }
      // With a queue left out the wait is short: its actor may be back any moment.
      const wait = queues.length === options.queues.length ? PULL_WAIT_MS : IDLE_WAIT_MS
      const max = hands.free
      // A handler got stuck since: there is no room after all.
      if (max < 1) continue
      const pulled = yield* Effect.result(pull(options, { queues, max, wait, rotate: options.rotate }))
      if (pulled._tag === "Success") {
        if (failures > 0) log.info("connected again")
        failures = 0
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
const pull = (options: ConsumerOptions, request: PullRequest): Effect.Effect<void, TransportError> =>
  Effect.tryPromise({
    try: async (signal) => {
      const listening = setTimeout(() => options.onListening(true), 20)
      try {
        const deliveries = await options.queue.pull(request, signal)
        options.onListening(true)
        options.accept(deliveries)
      } finally {
        clearTimeout(listening)
      }
    },
    catch: asTransportError,
  })
