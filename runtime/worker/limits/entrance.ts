/** Puts tasks on the list of a limit, and says so: to those who know its first ones, and to those who move its head. */
import type { Log } from "../../log.ts"
import type { StoreOperation } from "../../transport.ts"
import { earliest } from "./place.ts"
import type { Waiting, WaitingList } from "./waiting.ts"

export interface EntranceOptions {
  /** The limit. */
  readonly key: string
  readonly list: WaitingList
  readonly log: Log
  /** Writes entries of the list, those of one turn of the event loop together. */
  readonly enter: (operation: StoreOperation) => Promise<unknown>
  /** Called with the first place of those who were put on the list, once others can know. */
  readonly onTold: (first: string) => void
}

/** Who is put on the list is told of together with those who come so soon. */
const TELL_MS = 50

export class Entrance {
  readonly #options: EntranceOptions
  /** What is on its way to the store. */
  #underWay = 0
  /** The first place of those that nobody was told of yet. */
  #untold: string | undefined
  #telling: ReturnType<typeof setTimeout> | undefined

  constructor(options: EntranceOptions) {
    this.#options = options
  }

  /** Something is on its way to the store. */
  get isBusy(): boolean {
    return this.#underWay > 0
  }

  /** Nothing is on its way, and everybody was told. */
  get isDone(): boolean {
    return this.#underWay === 0 && this.#telling === undefined
  }

  /** Forgotten after `ttl` milliseconds. `isUrgent`: there may be a slot for it. Never fails. */
  async enter(waiting: Waiting, ttl: number, isUrgent: boolean): Promise<void> {
    const { list, enter, log, key } = this.#options
    this.#underWay++
    try {
      await enter(list.entering(waiting, ttl))
      this.#untold = earliest(this.#untold, waiting.place)
      this.#telling ??= setTimeout(() => void this.#tell(), isUrgent ? 0 : TELL_MS)
    } catch (cause) {
      const text = "a task could not be put on the list of a limit, and comes by itself"
      log.debug(text, { limit: key, cause: String(cause) })
    }
    this.#underWay--
  }

  /** Tells now what was to be told in a moment. */
  async flush(): Promise<void> {
    if (this.#telling === undefined) return
    clearTimeout(this.#telling)
    await this.#tell()
  }

  async #tell(): Promise<void> {
    const { list, log, key, onTold } = this.#options
    this.#telling = undefined
    const first = this.#untold
    if (first === undefined) return
    this.#untold = undefined
    this.#underWay++
    await list.tell(first).catch((cause: unknown) => {
      log.debug("nobody hears for now who waits", { limit: key, cause: String(cause) })
    })
    this.#underWay--
    onTold(first)
  }
}
