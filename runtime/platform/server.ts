/** What the servers of Bun and Deno are to the runtime. */

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

/** An object with a method of this name. */
export const hasMethod = <const Name extends string>(
  value: unknown,
  name: Name,
): value is { readonly [Key in Name]: unknown } =>
  isObject(value) && name in value && typeof Reflect.get(value, name) === "function"
