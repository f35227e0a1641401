/**
 * Those who wait for a slot of one limit, in the order of their places: an entry of the store each. A worker reads the
 * first ones together and keeps them in mind; before one is called its entry is read again, since others may have called
 * it, or put it off anew.
 */
import { Result, Schema } from "effect"
import type { Store, StoreOperation } from "../../transport.ts"
import { type Entered, News } from "./news.ts"
import { behind } from "./place.ts"
import { waitingPrefix } from "./state.ts"

/** What calls a task: the token of the delivery that has put it off. */
const Waiter = Schema.Struct({ token: Schema.String, id: Schema.String, queue: Schema.String })
type Waiter = typeof Waiter.Type

/** A task that waits. */
export interface Waiting extends Waiter {
  readonly place: string
}

/** So many of the first ones are read together: to list a few may cost as much as to list all. */
const WINDOW = 128

const decode = Schema.decodeUnknownResult(Schema.fromJsonString(Waiter))
const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** What an entry says; `undefined` when it cannot be read. */
export const readWaiter = (value: Uint8Array): Waiter | undefined =>
  Result.getOrUndefined(decode(decoder.decode(value)))

/** The first of those who wait. */
export interface Front {
  readonly places: ReadonlyArray<string>
  /** The head once those up to a place are called: no place before it waits. `undefined`: nobody waits. */
  readonly headAfter: (place: string) => string | undefined
}

export class WaitingList {
  readonly #store: Store
  readonly #prefix: string
  readonly #news: News
  /** Places of the first ones, as they were when they were read. */
  #window: ReadonlyArray<string> = []
  /** From where on they are known. */
  #from = ""
  /** The last of the news that is known. */
  #seen: number | undefined

  constructor(store: Store, key: string) {
    this.#store = store
    this.#prefix = waitingPrefix(key)
    this.#news = new News(store, key)
  }

  /** Writes a task down, or anew with the token of its latest delivery; forgotten after `ttl` milliseconds. */
  entering({ place, ...waiter }: Waiting, ttl: number): StoreOperation {
    return { key: this.#prefix + place, value: encoder.encode(JSON.stringify(waiter)), ttl }
  }

  leaving(place: string): StoreOperation {
    return { key: this.#prefix + place }
  }

  /** Says that those were entered of whom this is the first. */
  tell(first: string): Promise<void> {
    return this.#news.tell(first)
  }

  /** Those who wait from `head` on, `some` of them if there are so many. */
  async from(head: string, some: number): Promise<Front> {
    const news = await this.#news.read()
    const isCovered = head >= this.#from
    this.#window = this.#window.filter((place) => place >= head)
    this.#from = head
    let isWhole = false
    if (!isCovered || this.#window.length < some || this.#hasNew(news)) {
      const after = this.#prefix + head.slice(0, -1)
      const entries = await this.#store.list({ prefix: this.#prefix, limit: WINDOW, after })
      const places = entries.map(({ key }) => key.slice(this.#prefix.length))
      this.#window = places.filter((place) => place >= head)
      isWhole = entries.length < WINDOW
    }
    this.#seen = news.at(-1)?.number
    const window = this.#window
    const headAfter = (place: string): string | undefined =>
      window.find((each) => each > place) ?? (isWhole ? undefined : behind(place))
    return { places: window.slice(0, some), headAfter }
  }

  /** The first place before this one of those that were entered since the list was last looked at; `undefined`: none. */
  async overlooked(head: string | undefined): Promise<string | undefined> {
    const firsts = this.#unknown(await this.#news.read())
    const [first] = firsts.filter((place) => head === undefined || place < head).sort()
    return first
  }

  /** What the entries of these places say now; of those who wait no more, nothing. */
  async read(places: ReadonlyArray<string>): Promise<ReadonlyMap<string, Waiting>> {
    const entries = await Promise.all(places.map((place) => this.#store.get(this.#prefix + place)))
    const found = new Map<string, Waiting>()
    for (const [at, place] of places.entries()) {
      const value = entries[at]?.value
      const waiter = value === undefined ? undefined : readWaiter(value)
      if (waiter !== undefined) found.set(place, { place, ...waiter })
    }
    return found
  }

  /** Whether something was put among the first ones since they were read. */
  #hasNew(news: ReadonlyArray<Entered>): boolean {
    const last = this.#window.at(-1) ?? ""
    return this.#unknown(news).some((first) => first < last)
  }

  /** First places of what was entered since the list was last looked at; "" when that is not known. */
  #unknown(news: ReadonlyArray<Entered>): ReadonlyArray<string> {
    const known = news.findIndex(({ number }) => number === this.#seen)
    if (known < 0 && this.#seen !== undefined) return [""]
    return news.slice(known + 1).map(({ first }) => first)
  }
}
