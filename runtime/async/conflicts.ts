/** Compare-and-set by several processes at a time: how often a change is tried, and how long it waits in between. */

import { sleep } from "../transport/timers.ts"

/** Most tries. Several processes may change the same at a time, but hardly this often before one of them. */
export const MAX_TRIES = 30

/** Longest random wait before another try, times its number, in milliseconds. */
const BACKOFF_MS = 10

/** Waits before a try, but the first one (0): so processes that met do not meet again. */
export const beforeTry = async (tried: number): Promise<void> => {
  if (tried > 0) await sleep(Math.random() * tried * BACKOFF_MS)
}
