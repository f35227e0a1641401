/** What handlers have asked the worker for and not been answered yet. */
import { Result } from "effect"
import { CallboardError, type ErrorCode, WaitTimeout } from "../../errors.ts"
import { parseJson } from "../../protocol/codec/json.ts"
import type { Order } from "./message.ts"

type Answer = Extract<Order, { readonly kind: "answer" }>

interface Waiting {
  readonly resolve: (value: unknown) => void
  readonly reject: (cause: unknown) => void
}

export class Questions {
  readonly #waiting = new Map<number, Waiting>()
  #last = 0

  /** Asks, under a number of its own. */
  ask(send: (question: number) => void): Promise<unknown> {
    const question = ++this.#last
    return new Promise((resolve, reject) => {
      this.#waiting.set(question, { resolve, reject })
      send(question)
    })
  }

  /** Those who asked are gone: their run is over. */
  forget(): void {
    this.#waiting.clear()
  }

  answered({ question, value, refused }: Answer): void {
    const waiting = this.#waiting.get(question)
    this.#waiting.delete(question)
    if (waiting === undefined) return
    if (refused !== undefined) {
      waiting.reject(errorOf(refused))
      return
    }
    const parsed = value === undefined ? Result.succeed(undefined) : parseJson(value)
    if (Result.isFailure(parsed)) waiting.reject(new CallboardError("internal", parsed.failure.message))
    else waiting.resolve(parsed.success)
  }
}

/** The error that the worker's client threw, as its own class where a handler may want to tell it apart. */
const errorOf = ({ name, message, code, field, id }: NonNullable<Answer["refused"]>): Error => {
  if (code !== undefined) {
    // The worker's own words: one of its codes.
    return new CallboardError(code as ErrorCode, message, {
      ...(field === undefined ? {} : { field }),
      ...(id === undefined ? {} : { id }),
    })
  }
  const error = name === "WaitTimeout" ? new WaitTimeout(id ?? "", 0) : new Error()
  error.message = message
  return name === "WaitTimeout" ? error : Object.assign(error, { name })
}
