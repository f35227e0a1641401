/** The settings as a flat list, each with its path in the file and its environment variable. */
import type { AnySetting, Settings } from "./setting.ts"
import { TABLE } from "./table.ts"

/** One setting. Its path in the file is `http.port`, for instance. */
export interface ListedSetting extends Omit<AnySetting, "default"> {
  readonly path: string
  /** The default in words. */
  readonly default: string
  /** Name of its environment variable; `undefined` where the setting can be given in file and code only. */
  readonly variable: string | undefined
}

const variableOf = (path: string): string =>
  `CALLBOARD_${path
    .replaceAll(".", "_")
    .replace(/[A-Z]/g, (letter) => `_${letter}`)
    .toUpperCase()}`

/** The default in words: text as it is written, true as `yes`. */
const wordsOf = ({ default: value, otherwise, read }: AnySetting): string => {
  if (otherwise !== undefined) return otherwise
  if (typeof value === "boolean") return value ? "yes" : "no"
  return read === "text" ? `\`${value}\`` : `${value}`
}

const listed = (table: Settings, prefix = ""): ReadonlyArray<ListedSetting> =>
  Object.entries(table).flatMap(([name, each]): ReadonlyArray<ListedSetting> => {
    const path = `${prefix}${name}`
    if ("fields" in each) return listed(each.fields, `${path}.`)
    return [{ ...each, path, default: wordsOf(each), variable: each.read === "none" ? undefined : variableOf(path) }]
  })

/** All settings, in the order of the table. */
export const SETTINGS: ReadonlyArray<ListedSetting> = listed(TABLE)
