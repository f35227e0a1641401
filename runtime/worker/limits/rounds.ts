/** What is asked of one limit in one turn of the event loop is decided together; one round after the other. */
import type { Log } from "../../log.ts"

/** Who asks. */
export interface Asking {
  /** Where it stands among those who wait. */
  readonly place: string
  /** Whether it may be on the list: it was delivered before. */
  readonly returning: boolean
}

/**
 * `granted`: one may run. Else when the rate allows the next at the earliest, in milliseconds from now; `away`: the store
 * could not be asked.
 */
export type Answer =
  | { readonly granted: true }
  | { readonly granted: false; readonly waitMs: number; readonly away: boolean }

/** What one round has decided. */
export interface Round {
  /** Places that may run. */
  readonly admitted: ReadonlySet<string>
  readonly waitMs: number
}

export interface RoundsOptions {
  readonly key: string
  readonly log: Log
  readonly decide: (asking: ReadonlyArray<Asking>) => Promise<Round>
  /** Whether something is to be decided although nobody asks. */
  readonly isDue: () => boolean
  /** Called when the store could not be asked. */
  readonly onAway: () => void
}

/** What could not be asked is asked again after about so long. */
export const AWAY_MS = 1_000

/** Somebody else wrote the same, each time it was tried. */
export const tooBusy = (): Round => ({ admitted: new Set(), waitMs: AWAY_MS * Math.random() })

export const placesOf = (asking: ReadonlyArray<Asking>): Set<string> => new Set(asking.map(({ place }) => place))

interface Ask extends Asking {
  readonly answer: (answer: Answer) => void
}

export class Rounds {
  readonly #options: RoundsOptions
  #asks: Array<Ask> = []
  #busy: Promise<void> | undefined

  constructor(options: RoundsOptions) {
    this.#options = options
  }

  ask(asking: Asking): Promise<Answer> {
    return new Promise((answer) => {
      this.#asks.push({ ...asking, answer })
      this.wake()
    })
  }

  /** Begins a round at the end of this turn, unless one is under way. */
  wake(): void {
    this.#busy ??= new Promise<void>((resolve) => setImmediate(resolve))
      .then(() => this.#run())
      .then((done) => {
        this.#busy = undefined
        if (this.#asks.length > 0 || (done && this.#options.isDue())) this.wake()
      })
  }

  get isBusy(): boolean {
    return this.#busy !== undefined
  }

  /** Resolves when what was asked is decided, and what was due is done or could not be. */
  async settled(): Promise<void> {
    while (this.#busy !== undefined) await this.#busy
  }

  /** Resolves to whether the store could be reached. */
  async #run(): Promise<boolean> {
    const { decide, isDue } = this.#options
    while (this.#asks.length > 0 || isDue()) {
      const asks = this.#asks.splice(0)
      let round: Round | undefined
      try {
        round = await decide(asks)
      } catch (cause) {
        // Never unlimited: what cannot be asked waits.
        const { log, key, onAway } = this.#options
        log.debug("a limit cannot be asked now", { limit: key, cause: String(cause) })
        onAway()
      }
      const admitted = new Set(round?.admitted)
      const waitMs = round?.waitMs ?? AWAY_MS
      // Of two deliveries of one task only one was counted.
      for (const { place, answer } of asks)
        answer(admitted.delete(place) ? { granted: true } : { granted: false, waitMs, away: round === undefined })
      if (round === undefined) return false
    }
    return true
  }
}
