/**
 * What was last put on the list of a limit: for those who keep its first ones in mind. Apart from the state, so that those
 * who come are not in the way of those who call.
 */
import { Result, Schema } from "effect"
import type { Store } from "../../transport.ts"
import { newsKey } from "./state.ts"

/** Something was put on the list: a number that tells it from the others, and the first of its places. */
export interface Entered {
  readonly number: number
  readonly first: string
}

const Told = Schema.Array(Schema.Tuple([Schema.Int, Schema.String]))
const decode = Schema.decodeUnknownResult(Schema.fromJsonString(Told))
const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** Whoever has not looked for longer reads the list again. */
const MOST = 16
const TRIES = 5
/** Longer than anybody keeps a list in mind that he does not use. */
const TTL_MS = 3_600_000

export class News {
  readonly #store: Store
  readonly #key: string

  constructor(store: Store, key: string) {
    this.#store = store
    this.#key = newsKey(key)
  }

  /** Latest last. */
  async read(): Promise<ReadonlyArray<Entered>> {
    return newsIn((await this.#store.get(this.#key))?.value)
  }

  /** Says, once they are there, that something was put on the list. */
  async tell(first: string): Promise<void> {
    const mine = { number: Math.floor(Math.random() * 2 ** 48), first }
    for (let tries = 0; tries < TRIES; tries++) {
      const entry = await this.#store.get(this.#key)
      const expect = entry === undefined ? ("absent" as const) : { revision: entry.revision }
      const value = valueOf([...newsIn(entry?.value).slice(1 - MOST), mine])
      if ((await this.#store.write([{ key: this.#key, value, expect, ttl: TTL_MS }])) === "written") return
    }
    // Too many at a time: everybody reads everything again.
    await this.#store.write([{ key: this.#key, value: valueOf([{ ...mine, first: "" }]), ttl: TTL_MS }])
  }
}

const newsIn = (value: Uint8Array | undefined): ReadonlyArray<Entered> => {
  const decoded = value === undefined ? undefined : Result.getOrUndefined(decode(decoder.decode(value)))
  return (decoded ?? []).map(([number, first]) => ({ number, first }))
}

const valueOf = (news: ReadonlyArray<Entered>): Uint8Array =>
  encoder.encode(JSON.stringify(news.map(({ number, first }) => [number, first])))
