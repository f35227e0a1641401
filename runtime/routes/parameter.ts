/** Parameters of a query: how the text of each becomes the value that its schema checks. */
import type * as Schema from "effect/Schema"

export interface Parameter<S extends Schema.Codec<unknown> = Schema.Codec<unknown>> {
  readonly form: "text" | "integer" | "boolean" | "list"
  readonly schema: S
}

export type Parameters = Readonly<Record<string, Parameter>>

/** The values of checked parameters. */
export type Values<P extends Parameters> = { readonly [K in keyof P]?: P[K]["schema"]["Type"] }

export const text = <S extends Schema.Codec<string>>(schema: S) => ({ form: "text", schema }) as const
export const integer = <S extends Schema.Codec<number>>(schema: S) => ({ form: "integer", schema }) as const
export const boolean = <S extends Schema.Codec<boolean>>(schema: S) => ({ form: "boolean", schema }) as const
/** Several values: the parameter is repeated, or has commas between the values. */
export const list = <S extends Schema.Codec<ReadonlyArray<unknown>>>(schema: S) => ({ form: "list", schema }) as const
