/** What the servers of Bun, Deno and Node are to the runtime. */

import { isObject } from "../protocol/guards.ts"

export interface Listener {
  readonly port: number
  /** Accepts no new requests; resolves when the running ones have been answered. */
  drain(): Promise<void>
  /** Closes the connections that are left. */
  kill(): Promise<void>
}

export interface Address {
  readonly host: string
  /** 0: any free one. */
  readonly port: number
}

export type Handler = (request: Request) => Response | Promise<Response>

/** Called when the server cannot accept connections. */
export type OnLost = (error: unknown) => void

/** Shortest time between two calls of {@link OnLost}, in milliseconds. */
const SAY_AGAIN_MS = 30_000

/** Passes a call on unless the last one was a moment ago: a server may fail at every connection. */
export const throttled = (onLost: OnLost): OnLost => {
  let said = Number.NEGATIVE_INFINITY
  return (error) => {
    if (performance.now() - said < SAY_AGAIN_MS) return
    said = performance.now()
    onLost(error)
  }
}

/** An object with a method of this name. */
export const hasMethod = <const Name extends string>(
  value: unknown,
  name: Name,
): value is { readonly [Key in Name]: unknown } =>
  isObject(value) && name in value && typeof Reflect.get(value, name) === "function"
