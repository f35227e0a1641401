/** The type of a value after a round trip through JSON. */
type IsAny<T> = 0 extends 1 & T ? true : false

type Unstored = bigint | symbol | ((...args: never) => unknown)

/** Properties that JSON leaves out. */
type Dropped<T, K extends keyof T> = K extends symbol
  ? K
  : [T[K]] extends [undefined | symbol | ((...args: never) => unknown)]
    ? K
    : never

/** Properties that JSON may leave out: an `undefined` there is as good as absent. */
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

/** A value after a round trip through JSON: what a record can hold. `never` is what JSON refuses. */
export type JsonForm<T> =
  IsAny<T> extends true
    ? unknown
    : unknown extends T
      ? unknown
      : T extends string | number | boolean | null
        ? T
        : T extends undefined | void
          ? null
          : T extends { toJSON(...args: never): infer J }
            ? JsonForm<J>
            : T extends Unstored
              ? never
              : T extends ReadonlyArray<unknown>
                ? { readonly [I in keyof T]: T[I] extends Unstored ? null : JsonForm<T[I]> }
                : T extends ReadonlyMap<unknown, unknown> | ReadonlySet<unknown> | Error | RegExp
                  ? Readonly<Record<string, never>>
                  : T extends ArrayBufferView
                    ? Readonly<Record<string, number>>
                    : T extends object
                      ? JsonObject<T>
                      : unknown
