/**
 * Extends leases. The server resets the time of whoever asks, also of one whose task another delivery holds by now, so
 * that a lease which may have lapsed is not asked for. The transport at which a delivery arrived is told when another one
 * extends it: a worker extends from a thread of its own, and would take its tasks for lost without that.
 */
import { listAt, numberAt } from "../connection/json.ts"
import type { Link } from "../connection/link.ts"
import type { Names } from "../streams/names.ts"
import type { Reader } from "../streams/reader.ts"
import { Acks, IN_PROGRESS } from "./acks.ts"
import type { Token } from "./delivery.ts"
import type { Ledger } from "./ledger.ts"

export interface LeasesParts {
  readonly link: Link
  readonly names: Names
  /** That of the deliveries that arrive here. */
  readonly nonce: string
  readonly ledger: Ledger
  /** Of the queue stream. */
  readonly tasks: Reader
}

const encoder = new TextEncoder()

/** What one transport tells another one: which of its deliveries have a full lease from `at` on. */
interface Extended {
  readonly at: number
  readonly numbers: ReadonlyArray<number>
}

export class Leases {
  readonly #parts: LeasesParts

  constructor(parts: LeasesParts) {
    this.#parts = parts
    const { link, names, nonce, ledger } = parts
    const subscription = link.subscribe(names.lease(nonce), ({ data }) => {
      const { at, numbers } = readExtended(data)
      // It may have lain in the socket for as long as this thread stood still.
      for (const number of numbers) ledger.extendOwn(number, Math.min(at, Date.now()))
    })
    link.closing.addEventListener("abort", () => subscription.unsubscribe(), { once: true })
  }

  /** Fails with `unavailable` when the server does not answer. */
  async extend(texts: ReadonlyArray<string>): Promise<ReadonlyArray<boolean>> {
    const { link, ledger } = this.#parts
    const start = Date.now()
    const tokens = texts.map((text) => ledger.read(text))
    const ours = await Promise.all(
      tokens.map(async (token) => (token !== undefined && (await this.#isOurs(token, start)) ? token : undefined)),
    )
    await link.ready()
    const acks = new Acks(link)
    for (const token of ours) if (token !== undefined) acks.add({ ...token, payload: IN_PROGRESS })
    const unanswered = await acks.finish()
    const elsewhere = new Map<string, Array<number>>()
    const kept = ours.map((token) => {
      if (token === undefined) return false
      const error = unanswered.get(token.consumer)
      // Without its consumer a task is delivered anew: nothing of it is ours. A lost connection says nothing of the kind.
      if (error !== undefined && (error.outcome !== "none" || !link.connected)) throw error
      if (error !== undefined) return false
      ledger.extend(token, start)
      const { nonce, number } = token
      if (!ledger.isOwn(token)) elsewhere.set(nonce, [...(elsewhere.get(nonce) ?? []), number])
      return true
    })
    for (const [nonce, numbers] of elsewhere) this.#tell(nonce, { at: start, numbers })
    return kept
  }

  #tell(nonce: string, extended: Extended): void {
    const { link, names } = this.#parts
    link.send(names.lease(nonce), encoder.encode(JSON.stringify(extended)))
  }

  async #isOurs(token: Token, now: number): Promise<boolean> {
    const { ledger, tasks } = this.#parts
    if (token.until <= now) return false
    // What arrived here and was not ended is still in the queue; of the others nothing is known.
    return ledger.isOwn(token) || (await tasks.at(token.seq)) !== undefined
  }
}

const decoder = new TextDecoder()

const readExtended = (data: Uint8Array): Extended => {
  try {
    const said: unknown = JSON.parse(decoder.decode(data))
    return { at: numberAt(said, "at"), numbers: listAt(said, "numbers").map(Number) }
  } catch {
    return { at: 0, numbers: [] }
  }
}
