/**
 * Extends leases. The server resets the time of whoever asks, also of one whose task somebody else holds by now, so
 * that a lease which may have lapsed is not asked for.
 */
import { TransportError } from "../../../runtime/transport/mod.ts"
import type { Link } from "../connection/link.ts"
import type { Runs } from "../runs.ts"
import type { Reader } from "../streams/reader.ts"
import { Acks, IN_PROGRESS } from "./acks.ts"
import type { Token } from "./delivery.ts"
import type { Ledger } from "./ledger.ts"

export class Leases {
  readonly #link: Link
  readonly #ledger: Ledger
  readonly #tasks: Reader
  readonly #runs: Runs
  readonly #lease: number

  constructor(parts: { link: Link; ledger: Ledger; tasks: Reader; runs: Runs; lease: number }) {
    this.#link = parts.link
    this.#ledger = parts.ledger
    this.#tasks = parts.tasks
    this.#runs = parts.runs
    this.#lease = parts.lease
  }

  /** Fails with `unavailable` when the server does not answer. */
  async extend(texts: ReadonlyArray<string>): Promise<ReadonlyArray<boolean>> {
    const start = Date.now()
    const tokens = texts.map((text) => this.#ledger.read(text))
    const ours = await Promise.all(
      tokens.map(async (token) => token !== undefined && (await this.#isOurs(token, start))),
    )
    const extended = tokens.filter((token, at): token is Token => token !== undefined && ours[at] === true)
    await this.#link.ready()
    const acks = new Acks(this.#link)
    for (const { ack, consumer } of extended) acks.add({ ack, consumer, payload: IN_PROGRESS })
    const unanswered = await acks.finish()
    for (const { consumer } of extended) {
      const error = unanswered.get(consumer)
      // Without its consumer a task is delivered anew: nothing of it is ours.
      if (error !== undefined && error.outcome !== "none") throw error
    }
    const kept = extended.filter(({ consumer }) => !unanswered.has(consumer))
    await this.#note(kept, start)
    return tokens.map((token, at) => ours[at] === true && token !== undefined && !unanswered.has(token.consumer))
  }

  async #isOurs(token: Token, now: number): Promise<boolean> {
    if (!this.#ledger.runs(token, now)) return false
    // What arrived here and was not settled is still in the queue; of the others nothing is known.
    return this.#ledger.get(token) !== undefined || (await this.#tasks.at(token.seq)) !== undefined
  }

  /** Writes down that these run on, here and where other threads and readers look. */
  async #note(tokens: ReadonlyArray<Token>, now: number): Promise<void> {
    const foreign: Array<string> = []
    const due = new Map<string, string>()
    for (const token of tokens) {
      const { fence, idToken } = token
      const held = this.#ledger.note(token)
      held.until = now + this.#lease
      if (token.number === undefined) foreign.push(fence)
      if (now - held.keptAt < this.#lease / 2) continue
      held.keptAt = now
      due.set(idToken, fence)
    }
    try {
      await Promise.all([this.#runs.extended(foreign), this.#runs.keep(due)])
    } catch (error) {
      // The leases are extended; what was not noted is only seen less well.
      if (!(error instanceof TransportError)) throw error
    }
  }
}
