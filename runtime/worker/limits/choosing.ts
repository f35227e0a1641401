/** Who gets the slots of a limit that are free: those who ask, those who were called, those who wait and are called now. */
import { CALL_MS, expectedOf, mayCall, review } from "./calls.ts"
import { earliest } from "./place.ts"
import type { Call } from "./state.ts"
import { turnOf } from "./turn.ts"
import type { Waiting, WaitingList } from "./waiting.ts"

export interface Choice {
  /** Of those who ask. */
  readonly admitted: ReadonlySet<string>
  /** Calls that are open now. */
  readonly called: ReadonlyMap<string, Call>
  /** Nobody who was not called waits before this place; absent, nobody waits. */
  readonly head: string | undefined
  /** Of those who are to be called now. */
  readonly tokens: ReadonlyArray<string>
  /** Places to be struck off the list. */
  readonly gone: ReadonlyArray<string>
  /** The list was looked at, and the head may have moved. */
  readonly hasLooked: boolean
  /** There may be more to be called than were found. */
  readonly soon: boolean
}

interface Front {
  readonly waiting: ReadonlyArray<Waiting>
  readonly gone: ReadonlyArray<string>
  readonly headAfter: string | undefined
  readonly soon: boolean
}

/** Of those who wait, so many are looked at together where many may be over. */
const MANY = 64

export class Choosing {
  readonly #list: WaitingList
  readonly #isOver: (id: string) => Promise<boolean>
  /** Some that were called did not come because their job is over. */
  #someAreOver = false

  /** `isOver`: whether a job is. */
  constructor(list: WaitingList, isOver: (id: string) => Promise<boolean>) {
    this.#list = list
    this.#isOver = isOver
  }

  /** `asking` are here; `head` and `calls` are what is known of the others. `now` by the store's clock. Fails as the store does. */
  async choose(
    asking: ReadonlyArray<string>,
    slots: number,
    { head, calls }: { readonly head: string | undefined; readonly calls: ReadonlyMap<string, Call> },
    now: number,
  ): Promise<Choice> {
    const { called, again, gone, someAreOver } = await review(calls, new Set(asking), now, this.#list, this.#isOver)
    if (someAreOver) this.#someAreOver = true
    const expected = expectedOf(called)
    const isBeforeHead = (place: string): boolean => head === undefined || place < head
    // Where all slots are kept for those who were called, others are looked at only for the sake of who asks.
    const unkept = slots - expected.length
    const mustLook = unkept > 0 || ![...turnOf(slots, { asking, expected, waiting: [] }).admitted].every(isBeforeHead)
    const front =
      head !== undefined && slots > 0 && mustLook && mayCall(called, slots)
        ? await this.#front(head, unkept > 0 ? unkept : slots, new Set([...asking, ...called.keys()]))
        : undefined
    const waiting = front?.waiting ?? []
    const { admitted, next } = turnOf(slots, { asking, expected, waiting: waiting.map(({ place }) => place) })
    const tokens = again.map(({ token }) => token)
    for (const { place, token } of waiting) {
      if (!next.includes(place)) continue
      called.set(place, { until: now + CALL_MS, tries: 1 })
      tokens.push(token)
    }
    const first = waiting.find(({ place }) => !next.includes(place))?.place
    let headAfter = front === undefined ? head : (first ?? front.headAfter)
    for (const place of asking) if (!admitted.has(place)) headAfter = earliest(headAfter, place)
    return {
      admitted,
      called,
      head: headAfter,
      tokens,
      gone: [...gone, ...(front?.gone ?? [])],
      hasLooked: front !== undefined,
      soon: front?.soon === true,
    }
  }

  /** The first of those who wait and are not among those who are known. */
  async #front(head: string, some: number, known: ReadonlySet<string>): Promise<Front> {
    const doubted = this.#someAreOver
    const front = await this.#list.from(head, doubted ? Math.max(MANY, some) : some)
    const last = front.places.at(-1)
    const places = front.places.filter((place) => !known.has(place))
    const found = [...(await this.#list.read(places)).values()]
    const isOver = doubted ? await Promise.all(found.map(({ id }) => this.#isOver(id))) : []
    const waiting = found.filter((_, at) => isOver[at] !== true)
    this.#someAreOver = isOver.includes(true)
    return {
      waiting,
      gone: found.flatMap(({ place }, at) => (isOver[at] === true ? [place] : [])),
      headAfter: front.headAfter(last ?? head),
      soon: last !== undefined && waiting.length < Math.min(some, front.places.length),
    }
  }
}
