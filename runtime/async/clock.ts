import type { Store } from "../transport/store.ts"

/** The clocks of a worker, as parameters, so that a test can set them. */
export interface Clock {
  /**
   * Milliseconds since the epoch, for times that are stored or shown. An operator or NTP may set it forward or back at
   * any moment.
   */
  readonly now: () => number
  /**
   * Milliseconds since an arbitrary moment, for measuring how long something takes. Nothing sets it: it only goes
   * forward.
   */
  readonly monotonic: () => number
  /**
   * Milliseconds since the epoch as the transport counts them: by this a task is due, or has expired, whatever the clocks
   * of the machines say that workers run on.
   */
  readonly transportNow: () => number
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  transportNow: () => Date.now(),
}

/** Clocks that differ by less are taken for the same: it takes a moment to ask the transport what time it is. */
const TOLERANCE_MS = 1_000

/**
 * These clocks with the time of a store. `ask` asks for that time, and is to be called now and then; until the first answer,
 * and as long as the store does not answer, the last one counts. A store that no other machine reaches (`isLocal`) goes by
 * the clock of this machine, and is set with it: what was known before would be wrong at once.
 */
export const withTransportTime = (
  clock: Clock,
  store: Pick<Store, "now">,
  isLocal = false,
): { readonly clock: Clock; ask(): Promise<void> } => {
  if (isLocal) return { clock, ask: () => Promise.resolve() }
  let offset = clock.transportNow() - clock.monotonic()
  let gap = clock.now() - clock.monotonic()
  const ask = async (): Promise<void> => {
    const start = clock.monotonic()
    const now = await store.now()
    // The store read its clock at some moment in between. A thread that was blocked reads the answer late: what was known
    // before is kept as far as the answer allows.
    offset = Math.min(Math.max(offset, now - clock.monotonic()), now - start)
  }
  const transportNow = (): number => {
    const [now, monotonic] = [clock.now(), clock.monotonic()]
    const there = monotonic + offset
    // The clock of this machine was set: that of a server that runs on it was, too.
    if (Math.abs(now - monotonic - gap) >= TOLERANCE_MS) {
      gap = now - monotonic
      void ask().catch(() => undefined)
    }
    return Math.abs(now - there) < TOLERANCE_MS ? now : Math.round(there)
  }
  return { clock: { ...clock, transportNow }, ask }
}
