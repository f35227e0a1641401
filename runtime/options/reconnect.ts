/** Reconnecting to a lost transport: whether, how often, after which waits, and what the log says about it. */
import type { Log } from "../log/log.ts"
import { TransportError } from "../transport/mod.ts"
import { sleep } from "../transport/timers.ts"
import { type DurationInput, milliseconds } from "./duration.ts"
import { wholeNumber } from "./fields.ts"
import { refuseInput } from "./refuse.ts"

/** What a worker does when its transport cannot be reached. Durations are seconds, or text such as `"0.25 seconds"`. */
export interface ReconnectOptions {
  /** Try again when the transport is lost; false: its loss ends the worker. Defaults to true. */
  readonly enabled?: boolean
  /** Try again when the transport cannot be reached at the start; false: fail at once. Defaults to true. */
  readonly atStart?: boolean
  /** Failed tries in a row after which the worker gives up; 0: never. Defaults to 100. */
  readonly maxTries?: number
  /** Wait before the first try, 1 ms at least. It doubles with each try. Defaults to 0.25 seconds. */
  readonly base?: DurationInput
  /** Longest wait between two tries, `base` at least. Defaults to 10 seconds. */
  readonly cap?: DurationInput
  /**
   * Shorten each wait by a random part of up to half, so that many workers do not all reconnect at once. Defaults to
   * true.
   */
  readonly jitter?: boolean
}

/** {@link ReconnectOptions} with defaults filled in and durations in milliseconds. */
export interface ReconnectPolicy {
  readonly enabled: boolean
  readonly atStart: boolean
  /** 0: no bound. */
  readonly maxTries: number
  readonly baseMs: number
  readonly capMs: number
  readonly jitter: boolean
}

export const RECONNECT_DEFAULTS = {
  enabled: true,
  atStart: true,
  maxTries: 100,
  base: "0.25 seconds",
  cap: "10 seconds",
  jitter: true,
} as const

/** The ranges of the options, for `serve()` and the configuration alike. */
export const RECONNECT_RANGES = { maxTries: { min: 0 }, base: { min: 1 }, cap: { min: 1 } } as const

/** Fills in the defaults. Fails with `invalid-input`, naming the option. */
export const resolveReconnect = (options: ReconnectOptions = {}): ReconnectPolicy => {
  const { enabled, atStart, maxTries, base, cap, jitter } = { ...RECONNECT_DEFAULTS, ...options }
  wholeNumber("reconnect.maxTries", maxTries, RECONNECT_RANGES.maxTries)
  const baseMs = milliseconds("reconnect.base", base, refuseInput, RECONNECT_RANGES.base)
  const capMs = milliseconds("reconnect.cap", cap, refuseInput, RECONNECT_RANGES.cap)
  if (capMs < baseMs) refuseInput("reconnect.cap", "must be at least as long as reconnect.base")
  return { enabled, atStart, maxTries, baseMs, capMs, jitter }
}

/** Milliseconds to wait before the n-th try, with n from 1. `random`: from 0 to 1. */
export const reconnectDelay = (tries: number, policy: ReconnectPolicy, random = Math.random()): number =>
  Math.min(policy.capMs, policy.baseMs * 2 ** (tries - 1)) * (policy.jitter ? 0.5 + random / 2 : 1)

/** Whether the policy allows no further try after this many failures in a row. */
export const isExhausted = (failures: number, { maxTries }: ReconnectPolicy): boolean =>
  maxTries > 0 && failures > maxTries

/** The log line before the `tries`-th try: the error, the wait, and the number of the try. */
export const retryNotice = (error: TransportError, delayMs: number, tries: number, policy: ReconnectPolicy): string => {
  const count = policy.maxTries > 0 ? `${tries}/${policy.maxTries}` : `${tries}`
  return `${error.message}. Trying again in ${(delayMs / 1000).toFixed(2)} seconds… (${count})`
}

/**
 * Connects, and tries again while the transport cannot be reached and the policy allows it. Fails with the last error, and
 * at once with an error that another try cannot fix.
 */
export const connectWithRetries = async <A>(
  connect: () => Promise<A>,
  policy: ReconnectPolicy,
  log: Log,
): Promise<A> => {
  for (let failures = 1; ; failures++) {
    try {
      return await connect()
    } catch (error) {
      const mayPass = error instanceof TransportError && error.retryable
      if (!mayPass || !policy.atStart || isExhausted(failures, policy)) throw error
      const delay = reconnectDelay(failures, policy)
      log.warn(retryNotice(error, delay, failures, policy))
      await sleep(delay)
    }
  }
}
