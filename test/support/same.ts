/** For type tests: two types that must be the same. */

/** Whether two types are identical, `readonly` and optionality included; `any` is like nothing but itself. */
export type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false

/** Compiles only as `same<A, B>(true)` with `A` and `B` identical, or `same<A, B>(false)` where they are not. */
export const same = <A, B>(_verdict: Equal<A, B>): void => undefined

/** The types that an actor carries. */
export type TypesOf<A extends { readonly "~types"?: unknown }> = NonNullable<A["~types"]>
