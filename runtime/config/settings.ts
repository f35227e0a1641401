/** The settings as a flat list, each with its path in the file and its environment variable. */
import * as Schema from "effect/Schema"
import { type About, HttpConfig, LogConfig, ReconnectConfig } from "./groups.ts"
import { ConfigSchema } from "./schema.ts"

/** One setting. Its path in the file is `http.port`, for instance. */
export interface Setting extends About {
  readonly path: string
  /** Name of its environment variable; `undefined` where the setting can be given in the file only. */
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
