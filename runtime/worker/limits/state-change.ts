/** The state of a limit, which all workers share, changed by compare-and-set. */
import type { Entry, Store } from "../../transport.ts"
import { decodeState, encodeState, type LimitState } from "./state.ts"

/** What becomes of the state; absent, it stays as it is. */
export interface Change<T> {
  readonly state: LimitState | undefined
  readonly answer: T
  /** Called once it is so. */
  readonly done: () => void
}

/** Tries to write while others write the same. */
const TRIES = 12
/** Before the first is tried again; grows up to eightfold. */
const CONFLICT_MS = 4
/** State with slots in use, or with those who wait, is kept for so long. */
export const LASTING_MS = 3_600_000
const LEAST_TTL_MS = 1_000

/**
 * Reads the state, lets `decide` change it, and writes it; again where somebody else was first. `now` is by the store's
 * clock. Resolves with `undefined` when somebody else was first each time. Fails as the store does.
 */
export const changeState = async <T>(
  store: Store,
  key: string,
  decide: (state: LimitState, now: number) => Promise<Change<T>> | Change<T>,
): Promise<T | undefined> => {
  let wait = CONFLICT_MS
  for (let tries = 0; tries < TRIES; tries++) {
    const [entry, now] = await Promise.all([store.get(key), store.now()])
    const change = await decide(decodeState(entry?.value), now)
    if (change.state === undefined || (await write(store, key, entry, change.state, now))) {
      change.done()
      return change.answer
    }
    // Not all again at the same moment.
    await new Promise((resolve) => setTimeout(resolve, wait * Math.random()))
    wait = Math.min(wait * 2, 8 * CONFLICT_MS)
  }
  return undefined
}

const write = async (
  store: Store,
  key: string,
  entry: Entry | undefined,
  state: LimitState,
  now: number,
): Promise<boolean> => {
  const rateMs = Math.max(0, Math.ceil((state.tat ?? now) - now))
  const lasts = state.held.size > 0 || state.called.size > 0 || state.head !== undefined
  const ttl = Math.max(rateMs + LEAST_TTL_MS, lasts ? LASTING_MS : 0)
  const expect = entry === undefined ? ("absent" as const) : { revision: entry.revision }
  return (await store.write([{ key, value: encodeState(state), expect, ttl }])) === "written"
}
