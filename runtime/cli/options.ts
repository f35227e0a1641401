/** Makes the flags of settings from their schema, and reads which of them were given. */
import { type Command, Option } from "commander"
import type { FlagValue } from "../config/resolving.ts"
import { SETTINGS, type Setting } from "../config/settings.ts"

/** Settings that every command takes. */
export const COMMON_SETTINGS = ["transport", "actors", "log.level", "log.color"]

/** Settings of commands that run a worker. */
export const WORKER_SETTINGS = SETTINGS.map((setting) => setting.path).filter(
  (path) => !path.startsWith("http.") && !COMMON_SETTINGS.includes(path),
)

/** Settings of commands that serve HTTP. */
export const HTTP_SETTINGS = ["http.port", "http.host"]

const settingsOfOptions = new WeakMap<Option, string>()

/** Help text of a flag. A negating flag has a text of its own, since that of the setting would mean the opposite. */
const helpOf = ({ description, default: otherwise, negation }: Setting): string =>
  negation ?? `${description} (default: ${otherwise})`

/** Adds the flags of settings. A setting without a flag is skipped. */
export const addSettings = (command: Command, paths: ReadonlyArray<string>): Command => {
  for (const setting of SETTINGS) {
    if (setting.flag === undefined || !paths.includes(setting.path)) continue
    const option = new Option(setting.flag, helpOf(setting).replaceAll("`", ""))
    settingsOfOptions.set(option, setting.path)
    command.addOption(option)
  }
  return command
}

/** The settings that were given as flags, of the command and of the program above it. */
export const givenSettings = (command: Command): ReadonlyMap<string, FlagValue> => {
  const given = new Map<string, FlagValue>()
  for (let each: Command | null = command; each !== null; each = each.parent) {
    for (const option of each.options) {
      const path = settingsOfOptions.get(option)
      const name = option.attributeName()
      const text: unknown = each.getOptionValue(name)
      if (path === undefined || given.has(path) || each.getOptionValueSource(name) !== "cli") continue
      given.set(path, { flag: option.long ?? option.flags, text: String(text) })
    }
  }
  return given
}
