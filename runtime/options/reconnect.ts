/** What becomes of a lost transport: whether it is tried again, after which waits, how often; and how that is said. */
import type { Log } from "../log/log.ts"
import { TransportError } from "../transport/mod.ts"
import { type DurationInput, milliseconds } from "./duration.ts"
import { refuseInput } from "./refuse.ts"
import { wholeNumber } from "./whole.ts"

export interface ReconnectOptions {
  /** Try again when the transport is lost; false: its loss ends the worker. Defaults to true. */
  readonly enabled?: boolean
  /** Try again when the transport is not there at the start; false: fail at once. Defaults to true. */
  readonly atStart?: boolean
  /** Tries in a row before giving up; 0 is for ever. Defaults to 100. */
  readonly maxTries?: number
  /** The first wait, more than 0. It doubles with each try. Defaults to 0.25 seconds. */
  readonly base?: DurationInput
  /** The longest wait, `base` at least. Defaults to 10 seconds. */
  readonly cap?: DurationInput
  /** Shorten each wait by up to half, so that many workers do not all come back at once. Defaults to true. */
  readonly jitter?: boolean
}

/** {@link ReconnectOptions} with nothing left open. */
export interface ReconnectPolicy {
  readonly enabled: boolean
  readonly atStart: boolean
  /** 0: for ever. */
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

/** What is taken for an option by itself, here and in the configuration. */
export const RECONNECT_RANGES = { maxTries: { least: 0 }, base: { least: 1 }, cap: { least: 1 } } as const

/** Fills in the defaults. Fails with `invalid-input`, naming the option. */
export const resolveReconnect = (options: ReconnectOptions = {}): ReconnectPolicy => {
  const { enabled, atStart, maxTries, base, cap, jitter } = { ...RECONNECT_DEFAULTS, ...options }
  wholeNumber("reconnect.maxTries", maxTries, RECONNECT_RANGES.maxTries)
  const baseMs = milliseconds("reconnect.base", base, refuseInput, RECONNECT_RANGES.base)
  const capMs = milliseconds("reconnect.cap", cap, refuseInput, RECONNECT_RANGES.cap)
  if (capMs < baseMs) refuseInput("reconnect.cap", "must be at least as long as reconnect.base")
  return { enabled, atStart, maxTries, baseMs, capMs, jitter }
}

/** Milliseconds to wait before a try, counted from 1. `random` is from 0 to 1. */
export const reconnectDelay = (tries: number, policy: ReconnectPolicy, random = Math.random()): number =>
  Math.min(policy.capMs, policy.baseMs * 2 ** (tries - 1)) * (policy.jitter ? 0.5 + random / 2 : 1)

/** Whether there is no try left after so many failures in a row. */
export const isExhausted = (failures: number, { maxTries }: ReconnectPolicy): boolean =>
  maxTries > 0 && failures > maxTries

/** Says that the `tries`-th try comes after so many milliseconds. */
export const retryNotice = (error: TransportError, delayMs: number, tries: number, policy: ReconnectPolicy): string => {
  const count = policy.maxTries > 0 ? `${tries}/${policy.maxTries}` : `${tries}`
  return `${error.message}. Trying again in ${(delayMs / 1000).toFixed(2)} seconds… (${count})`
}

/**
 * Connects, again and again while the transport cannot be reached and the policy allows it. Fails with the last error;
 * whatever trying again cannot help fails at once.
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
      await new Promise((resolve) => setTimeout(resolve, delay))
    }
  }
}
