/** The settings one by one, each with its path and its variable. */
import { Schema } from "effect"
import type { About } from "./about.ts"
import { HttpConfig, LogConfig, ReconnectConfig } from "./groups.ts"
import { ConfigSchema } from "./schema.ts"

/** One setting, by its path in the file: `http.port`. */
export interface Setting extends About {
  readonly path: string
  /** Name of its variable, unless it can be given in the file alone. */
  readonly variable: string | undefined
  readonly schema: Schema.Decoder<unknown>
}

const variableOf = (path: string): string =>
  `CALLBOARD_${path
    .replaceAll(".", "_")
    .replace(/[A-Z]/g, (letter) => `_${letter}`)
    .toUpperCase()}`

const settingsOf = (
  fields: Readonly<Record<string, Schema.Decoder<unknown>>>,
  prefix: string,
): ReadonlyArray<Setting> =>
  Object.entries(fields).flatMap(([key, schema]) => {
    const known = Schema.resolveAnnotations(schema)?.["callboard/setting"]
    if (known === undefined) return []
    const path = `${prefix}${key}`
    return [{ ...known, path, variable: known.read === "none" ? undefined : variableOf(path), schema }]
  })

/** All settings, in the order of the schema. */
export const SETTINGS: ReadonlyArray<Setting> = [
  ...settingsOf(ConfigSchema.fields, ""),
  ...settingsOf(ReconnectConfig.fields, "reconnect."),
  ...settingsOf(HttpConfig.fields, "http."),
  ...settingsOf(LogConfig.fields, "log."),
]
