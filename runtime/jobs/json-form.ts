/** The type of a value as it comes back from a job: what the JSON codec makes of it. */
import type { Exact } from "../protocol/exact.ts"

type IsAny<T> = 0 extends 1 & T ? true : false

type Unstored = symbol | ((...args: never) => unknown)

/** Properties that are left out: those without a value, and methods, which a class has on its prototype. */
type Dropped<T, K extends keyof T> = K extends symbol
  ? K
  : [T[K]] extends [undefined | symbol | ((...args: never) => unknown)]
    ? K
    : never

/** Properties that may be left out: an `undefined` there is as good as absent. */
type Optional<T, K extends keyof T> = undefined extends T[K] ? K : never

type JsonObject<T> = Flat<
  {
    readonly [K in keyof T as K extends Dropped<T, K> | Optional<T, K> ? never : K]: JsonForm<T[K]>
  } & {
    readonly [K in keyof T as K extends Dropped<T, K> ? never : K extends Optional<T, K> ? K : never]?: JsonForm<
      Exclude<T[K], undefined>
    >
  }
>

type Flat<T> = { readonly [K in keyof T]: T[K] }

/** A value as it comes back from a job, from `result()`. `never` is what is refused. */
export type JsonForm<T> =
  IsAny<T> extends true
    ? unknown
    : unknown extends T
      ? unknown
      : T extends string | number | boolean | null
        ? T
        : T extends undefined | void
          ? null
          : T extends Date | Exact
            ? T
            : T extends bigint
              ? number | bigint
              : T extends { toJSON(...args: never): infer J }
                ? JsonForm<J>
                : T extends Unstored
                  ? never
                  : T extends ReadonlyArray<unknown>
                    ? { readonly [I in keyof T]: JsonForm<T[I]> }
                    : T extends ReadonlyMap<unknown, infer V>
                      ? Readonly<Record<string, JsonForm<V>>>
                      : T extends ReadonlySet<infer V>
                        ? ReadonlyArray<JsonForm<V>>
                        : T extends Error | RegExp | PromiseLike<unknown>
                          ? never
                          : T extends ArrayBufferView | ArrayBuffer
                            ? Uint8Array
                            : T extends object
                              ? JsonObject<T>
                              : unknown
