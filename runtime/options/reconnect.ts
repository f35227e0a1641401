/** Reconnecting to a lost transport: whether, how often, after which waits, and what the log says about it. */
import type { Log } from "../log/log.ts"
import { TransportError } from "../transport/mod.ts"
import { sleep } from "../transport/timers.ts"

/** What a worker does when its transport cannot be reached. */
export interface ReconnectPolicy {
  readonly enabled: boolean
  readonly atStart: boolean
  /** 0: no bound. */
  readonly maxTries: number
  readonly baseMs: number
  readonly capMs: number
  readonly jitter: boolean
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
