/**
 * Calls: a slot that is free is kept for the task that was called for it. One that does not come in time does not hold
 * the slot any longer: others are called, and it is called again beside them, ever more seldom, until it has come, is known
 * to be over, or is struck off the list.
 */
import type { Call } from "./state.ts"
import type { Waiting, WaitingList } from "./waiting.ts"

/** How long a called task is waited for: it is pulled, read and asks in a few milliseconds. */
export const CALL_MS = 400
/** After so many calls, for about twelve seconds, it is taken for lost. It still comes by itself at the end of its delay, if there is one. */
const MOST_CALLS = 5
/** Calls without an answer that may be open, beside one per slot: where no worker has a hand free, all need not be called. */
const SPARE_CALLS = 16

/** What became of the calls of a limit. */
export interface Review {
  readonly called: Map<string, Call>
  /** To be called again. */
  readonly again: ReadonlyArray<Waiting>
  /** To be struck off the list. */
  readonly gone: ReadonlyArray<string>
  /** Among those who did not come are some whose job is over: others that wait may be as well. */
  readonly someAreOver: boolean
}

/** Looks after calls, of which those at the places `here` have been answered. `now` by the store's clock. */
export const review = async (
  calls: ReadonlyMap<string, Call>,
  here: ReadonlySet<string>,
  now: number,
  list: WaitingList,
  isOver: (id: string) => Promise<boolean>,
): Promise<Review> => {
  const called = new Map([...calls].filter(([place]) => !here.has(place)))
  const late = [...called].filter(([, { until }]) => until <= now)
  if (late.length === 0) return { called, again: [], gone: [], someAreOver: false }
  const waiting = await list.read(late.map(([place]) => place))
  const over = await Promise.all([...waiting.values()].map(async ({ place, id }) => ((await isOver(id)) ? place : "")))
  const again: Array<Waiting> = []
  const gone: Array<string> = []
  for (const [place, { tries }] of late) {
    const waiter = waiting.get(place)
    if (waiter === undefined) called.delete(place)
    else if (over.includes(place) || tries >= MOST_CALLS) {
      called.delete(place)
      gone.push(place)
    } else {
      called.set(place, { until: now + CALL_MS * 2 ** tries, tries: tries + 1 })
      again.push(waiter)
    }
  }
  return { called, again, gone, someAreOver: over.some((place) => place !== "") }
}

/** Places of those who may come any moment, and for whom a slot is kept. */
export const expectedOf = (called: ReadonlyMap<string, Call>): ReadonlyArray<string> =>
  [...called].flatMap(([place, { tries }]) => (tries === 1 ? [place] : []))

/** Whether more may be called. */
export const mayCall = (called: ReadonlyMap<string, Call>, slots: number): boolean => called.size < slots + SPARE_CALLS
