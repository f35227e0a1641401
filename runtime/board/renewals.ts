/** Claims and entities live only while their process does: they are renewed three times per lease. */
import { CallboardError } from "../errors.ts"
import { MAX_TIMER_MS, within } from "../transport/timers.ts"

/** Whether a renewed claim or entity is lost. The signal is made only when it is read: most claims end before that. */
export class Loss {
  #lost: AbortController | undefined
  #isLost = false

  get signal(): AbortSignal {
    this.#lost ??= new AbortController()
    if (this.#isLost) this.#lost.abort()
    return this.#lost.signal
  }

  happen(): void {
    this.#isLost = true
    this.#lost?.abort()
  }
}

interface Renewal {
  /** Resolves with `undefined` where there is nothing to renew any more. */
  readonly renew: () => Promise<unknown>
  /** Gives up the claim or entity when the board is closed. Absent: it is left to lapse. */
  readonly handBack: (() => Promise<unknown>) | undefined
  readonly loss: Loss
  /** When the last successful renewal was begun, by the monotonic clock. */
  since: number
}

/** Codes of errors by which a claim is over. */
const OVER: ReadonlyArray<string> = ["not-owner", "not-found"]

export class Renewals {
  readonly #leaseMs: number
  readonly #renewals = new Map<string, Renewal>()
  #timer: ReturnType<typeof setInterval> | undefined
  #isClosed = false

  constructor(leaseMs: number) {
    this.#leaseMs = leaseMs
  }

  /**
   * Renews something under this name from now on, in place of what had the name before. It is lost at once where all
   * renewals were closed meanwhile.
   */
  add(name: string, since: number, renew: () => Promise<unknown>, handBack?: () => Promise<unknown>): Loss {
    const loss = new Loss()
    if (this.#isClosed) {
      loss.happen()
      return loss
    }
    this.#renewals.set(name, { renew, handBack, loss, since })
    if (this.#timer === undefined) {
      this.#timer = setInterval(() => void this.#renewAll(), Math.min(this.#leaseMs / 3, MAX_TIMER_MS))
      this.#timer.unref?.()
    }
    return loss
  }

  has(name: string): boolean {
    return this.#renewals.has(name)
  }

  /** Ends the renewal of this name. That does not count as a loss. */
  remove(name: string): void {
    this.#renewals.delete(name)
  }

  /** Ends all renewals: everything is lost. Never fails. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    this.#timer = undefined
    const renewals = [...this.#renewals.values()]
    this.#renewals.clear()
    for (const { loss } of renewals) loss.happen()
    await Promise.allSettled(renewals.map(({ handBack }) => handBack?.()))
  }

  async #renewAll(): Promise<void> {
    await Promise.all([...this.#renewals].map(([name, renewal]) => this.#renew(name, renewal)))
  }

  async #renew(name: string, renewal: Renewal): Promise<void> {
    const asked = performance.now()
    const untilOver = renewal.since + this.#leaseMs - asked
    // A renewal without an answer must not keep the loss from being noticed when the lease is over. An entity is renewed after that
    // too, and its renewals have the time of a lease for their answer.
    const left = untilOver > 0 || renewal.handBack === undefined ? untilOver : this.#leaseMs
    const isKept = await within(Math.min(left, MAX_TIMER_MS), renewal.renew(), () => new Error("no answer")).then(
      (kept) => kept !== undefined,
      (cause: unknown) => {
        if (cause instanceof CallboardError && OVER.includes(cause.code)) return false
        // While a store is away for less than a lease, no claim lapses; an entity can be listed again after any time.
        const isOver = performance.now() - renewal.since >= this.#leaseMs
        return isOver && renewal.handBack === undefined ? false : undefined
      },
    )
    if (isKept) renewal.since = asked
    if (isKept !== false || this.#renewals.get(name) !== renewal) return
    this.#renewals.delete(name)
    renewal.loss.happen()
  }
}
