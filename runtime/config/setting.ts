/**
 * What a setting is, and what follows from a table of settings: the types of the configuration file and of options in code,
 * and the values that hold.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type DurationInput, type DurationRange, milliseconds } from "../options/duration.ts"
import { duration } from "../options/duration-field.ts"
import { whole } from "../options/fields.ts"
import { refuseInput } from "../options/refuse.ts"
import { isPlainObject } from "../protocol/guards.ts"

/** For the command line alone, for `serve()`, or for `connect()` too. The configuration file may hold all settings. */
export type Audience = "command" | "serve" | "connect"

/** How the text of a flag or a variable becomes a value. `none`: the setting is given in file and code only. */
export type Reading = "text" | "number" | "switch" | "duration" | "list" | "pairs" | "tokens" | "none"

/** What a setting says about itself: the help, the documentation and `doctor` show it. */
export interface Facts<D, W extends Audience> {
  readonly for: W
  /** One sentence, without the default. */
  readonly text: string
  /** The value that holds where none is given. */
  readonly default?: D
  /** The default in words, where it is no fixed value. */
  readonly otherwise?: string
  /** The actual default on this machine, where the words leave it open. */
  readonly here?: () => string
  readonly unit?: string
  /** Flag of `worker`, `serve`, `dev` and other commands that use the setting, in the form of commander. */
  readonly flag?: string
  /** What the flag does, where it has the form `--no-…` and thus turns the setting off. */
  readonly negation?: string
  /** The value is never printed. */
  readonly secret?: true
}

/** A setting that has type `A` in the file and `C` in code. */
export interface Setting<A, C, D, W extends Audience> extends Facts<D, W> {
  readonly schema: Schema.Codec<A>
  readonly code: Schema.Codec<C>
  readonly read: Reading
}

/** A setting that is a duration. Its value is in milliseconds, and `Ms` stands after its name. */
export interface Span<D, W extends Audience> extends Setting<DurationInput, DurationInput, D, W> {
  readonly ms: (field: string, given: DurationInput) => number
}

/** Settings under one name, such as `http`, which is `http.port` and others. */
export interface Group<F, W extends Audience> {
  readonly for: W
  readonly fields: F
  /** A rule about several of them. */
  readonly rule?: GroupRule
}

export type GroupRule = (
  given: Readonly<Record<string, unknown>>,
) => true | { readonly path: [string]; readonly issue: string }

/** Any setting, whatever its types. */
export interface AnySetting extends Facts<unknown, Audience> {
  readonly schema: Schema.Codec<unknown>
  readonly code: Schema.Codec<unknown>
  readonly read: Reading
  readonly ms?: Span<unknown, Audience>["ms"]
}

export type Settings = Readonly<Record<string, AnySetting | Group<Readonly<Record<string, AnySetting>>, Audience>>>

// ── Kinds of settings ────────────────────────────────────────────────────────────────────────────────────────────────

export const Text = Schema.String.check(Schema.isMinLength(1))

export const setting = <A, const W extends Audience, const D = undefined>(
  read: Reading,
  schema: Schema.Codec<A>,
  facts: Facts<D, W>,
): Setting<A, A, D, W> => ({ ...facts, read, schema, code: schema })

export const text = <const W extends Audience, const D extends string | undefined = undefined>(
  facts: Facts<D, W>,
  schema: Schema.Codec<string> = Text,
) => setting("text", schema, facts)

export const choice = <const A extends string, const W extends Audience, const D extends A | undefined = undefined>(
  of: ReadonlyArray<A>,
  facts: Facts<D, W>,
) => setting("text", Schema.Literals(of), facts)

export const count = <const W extends Audience, const D extends number | undefined = undefined>(
  range: { readonly min: number; readonly max?: number },
  facts: Facts<D, W>,
) => setting<number, W, D>("number", whole(range), facts)

/** Whether something is so. */
export const onOff = <const W extends Audience, const D extends boolean | undefined = undefined>(facts: Facts<D, W>) =>
  setting<boolean, W, D>("switch", Schema.Boolean, facts)

export const span = <const W extends Audience, const D extends DurationInput | undefined = undefined>(
  range: DurationRange,
  facts: Facts<D, W>,
): Span<D, W> => ({
  ...setting<DurationInput, W, D>("duration", duration(range), facts),
  unit: "duration",
  ms: (field, given) => milliseconds(field, given, refuseInput, range),
})

/** A record. A `Map` is refused: it is an object too, and a record would be read from it that has no entries. */
const record = <A>(value: Schema.Codec<A>): Schema.Codec<Readonly<Record<string, A>>> => {
  const decode = Schema.decodeUnknownResult(Schema.Record(Schema.String, value))
  const isRecord = (given: unknown): given is Readonly<Record<string, A>> => isPlainObject(given)
  return Schema.declare(isRecord, { expected: "an object of names and values" }).check(
    Schema.makeFilter((given) => {
      const decoded = decode(given)
      return Result.isSuccess(decoded) || decoded.failure.issue
    }),
  )
}

export const pairs = <A, const W extends Audience>(value: Schema.Codec<A>, facts: Facts<undefined, W>) =>
  setting<Readonly<Record<string, A>>, W>("pairs", record(value), facts)

export const group = <F, const W extends Audience>(for_: W, fields: F, rule?: GroupRule): Group<F, W> => ({
  for: for_,
  fields,
  ...(rule === undefined ? {} : { rule }),
})

/** The setting with another type in code. */
export const inCode = <A, C, D, W extends Audience>(
  given: Setting<A, A, D, W>,
  code: Schema.Codec<C>,
): Setting<A, C, D, W> => ({
  ...given,
  code,
})

// ── What follows from a table ────────────────────────────────────────────────────────────────────────────────────────

// Mapped without `as`, so that editors show the comment of the entry beside the option.

/** The settings as the configuration file holds them. */
export type InFile<T> = {
  readonly [K in keyof T]?:
    | (T[K] extends Group<infer F, Audience>
        ? InFile<F>
        : T[K] extends { readonly schema: Schema.Codec<infer A> }
          ? A
          : never)
    | undefined
}

/** The settings as options of a function. */
export type InCode<T> = {
  readonly [K in keyof T]?:
    | (T[K] extends Group<infer F, Audience>
        ? InCode<F>
        : T[K] extends { readonly code: Schema.Codec<infer C> }
          ? C
          : never)
    | undefined
}

/** The names of the settings for an audience. */
export type NamesFor<T, W extends Audience> = {
  [K in keyof T]: T[K] extends { readonly for: W } ? K : never
}[keyof T]

type ValueName<T, K extends keyof T> = T[K] extends { readonly ms: unknown } ? `${K & string}Ms` : K

type ValueOf<S> =
  S extends Group<infer F, Audience>
    ? Values<F>
    : S extends { readonly ms: unknown }
      ? number
      : S extends { readonly code: Schema.Codec<infer C> }
        ? C
        : never

type WithDefault<T> = {
  [K in keyof T]: T[K] extends Group<unknown, Audience> ? K : T[K] extends Facts<undefined, Audience> ? never : K
}[keyof T]

/** The values that hold. Only a setting without a default may be absent. */
export type Values<T> = { readonly [K in WithDefault<T> as ValueName<T, K>]: ValueOf<T[K]> } & {
  readonly [K in Exclude<keyof T, WithDefault<T>> as ValueName<T, K>]?: ValueOf<T[K]>
}

export const namesOf = <Name extends string>(table: Readonly<Record<Name, unknown>>): ReadonlyArray<Name> =>
  Object.keys(table) as Array<Name>

/** The settings of a table that are for an audience. */
export const settingsFor = <T extends Settings, const W extends Audience>(
  table: T,
  ...audiences: ReadonlyArray<W>
): Pick<T, NamesFor<T, W>> => {
  const kept = Object.entries(table).filter(([, each]) => audiences.some((one) => one === each.for))
  return Object.fromEntries(kept) as Pick<T, NamesFor<T, W>>
}

/** The options of a table as fields of a schema. */
const fieldsOf = (
  table: Settings,
  of: (each: AnySetting) => Schema.Codec<unknown>,
): Record<string, Schema.optionalKey<Schema.Codec<unknown>>> =>
  Object.fromEntries(
    Object.entries(table).map(([name, each]) => {
      if (!("fields" in each)) return [name, Schema.optionalKey(of(each))]
      const inner = Schema.Struct(fieldsOf(each.fields, of))
      return [name, Schema.optionalKey(each.rule === undefined ? inner : inner.check(Schema.makeFilter(each.rule)))]
    }),
  )

export const fieldsInFile = (table: Settings) => fieldsOf(table, ({ schema }) => schema)
export const fieldsInCode = (table: Settings) => fieldsOf(table, ({ code }) => code)

/** The values that hold by the options, which were checked. */
export const valuesOf = <const T extends Settings>(table: T, given: InCode<T>, prefix = ""): Values<T> => {
  const values: Record<string, unknown> = {}
  for (const [name, each] of Object.entries(table)) {
    const value = (given as Readonly<Record<string, unknown>>)[name]
    if ("fields" in each) values[name] = valuesOf(each.fields, value ?? {}, `${prefix}${name}.`)
    else if ((value ?? each.default) === undefined) continue
    else if (each.ms === undefined) values[name] = value ?? each.default
    else values[`${name}Ms`] = each.ms(`${prefix}${name}`, (value ?? each.default) as DurationInput)
  }
  return values as Values<T>
}

type Defaults<T> = {
  readonly [K in keyof T]: T[K] extends Group<infer F, Audience>
    ? Defaults<F>
    : T[K] extends Facts<infer D, Audience>
      ? D
      : never
}

/** The default of each setting. */
export const defaultsOf = <const T extends Settings>(table: T): Defaults<T> =>
  Object.fromEntries(
    Object.entries(table).map(([name, each]) => [name, "fields" in each ? defaultsOf(each.fields) : each.default]),
  ) as Defaults<T>
