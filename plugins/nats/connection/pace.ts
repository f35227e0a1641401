/**
 * How long the client waits between its tries to connect again. The client asks before each look at the clock, not once
 * per try, so that tries are counted by what it says about them.
 */
import { DebugEvents, Events, type NatsConnection } from "nats"

/** Without a word from the runtime. */
const STEADY_MS = 250

export class Pace {
  readonly #delay: (tries: number) => number
  #tries = 0
  #wait = 0

  constructor(delay: (tries: number) => number = () => STEADY_MS) {
    this.#delay = delay
    this.#begin()
  }

  /** Milliseconds between the last try and the next. */
  get wait(): number {
    return this.#wait
  }

  /** Counts the tries of this connection for as long as it lives. */
  async follow(connection: NatsConnection): Promise<void> {
    for await (const { type } of connection.status()) {
      if (type === DebugEvents.Reconnecting) this.#wait = this.#delay(++this.#tries)
      else if (type === Events.Reconnect) this.#begin()
    }
  }

  #begin(): void {
    this.#tries = 0
    this.#wait = this.#delay(1)
  }
}
