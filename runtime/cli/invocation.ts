/**
 * What every command gets: the resolved settings, its output, and a connected client where it asks for one. The flags of
 * settings are made from their schema.
 */
import { type Command, Option } from "commander"
import { type Client, connect } from "../client/client.ts"
import type { ClientSettings } from "../client/settings.ts"
import { loadConfigFile } from "../config/file.ts"
import { type FlagValue, type Resolved, resolveConfig } from "../config/resolving.ts"
import { namesOf } from "../config/setting.ts"
import { type ListedSetting, SETTINGS } from "../config/settings.ts"
import { CONNECT, type Config, DEFAULTS } from "../config/table.ts"
import type { LogLevel } from "../log/choices.ts"
import { pick } from "../protocol/compact.ts"
import { type Output, type OutputOptions, outputFor } from "./output.ts"

export interface Invocation {
  readonly resolved: Resolved
  readonly config: Config
  readonly transport: string
  readonly output: Output
  /** Connects a client, calls the function with it, and closes it. */
  withClient<A>(use: (client: Client) => Promise<A>): Promise<A>
}

/** Fails with `ConfigError` on settings that cannot be used. */
const invocationOf = async (command: Command): Promise<Invocation> => {
  const file = await loadConfigFile(process.cwd())
  const resolved = resolveConfig({ flags: givenSettings(command), env: process.env, file })
  const { config } = resolved
  const transport = config.transport ?? DEFAULTS.transport
  return {
    resolved,
    config,
    transport,
    output: outputFor({
      ...command.optsWithGlobals<Pick<OutputOptions, "json" | "wide">>(),
      colour: config.logColor,
    }),
    withClient: async (use) => {
      await using client = await connect(transport, connectSettings(config))
      return await use(client)
    },
  }
}

/**
 * Runs a command once its settings are resolved. `command` is the one that was called: its arguments and options.
 * A normal return is exit code 0. An error is printed in one line and gives another exit code.
 */
export const runs = (command: Command, run: (invocation: Invocation, command: Command) => Promise<void>): Command =>
  command.action(async () => run(await invocationOf(command), command))

/** The settings of a part of the table that were given. */
export const given = <Name extends keyof Config>(config: Config, part: Readonly<Record<Name, unknown>>) =>
  pick(config, namesOf(part))

/** The settings of a client that were given. */
export const connectSettings = (config: Config): ClientSettings => given(config, CONNECT)

/** The log level, which decides whether errors are printed with a stack. Readable also where other settings are invalid. */
export const wantsStack = (command: Command): boolean => {
  const level: LogLevel = "debug"
  return (givenSettings(command).get("logLevel")?.text ?? process.env["CALLBOARD_LOG_LEVEL"]) === level
}

/** Settings that every command takes. */
export const COMMON_SETTINGS = ["transport", "actors", "logLevel", "logColor"]

/** Settings of commands that run a worker. */
export const WORKER_SETTINGS = SETTINGS.map((setting) => setting.path).filter(
  (path) => !path.startsWith("http.") && !COMMON_SETTINGS.includes(path),
)

/** Settings of commands that serve HTTP. */
export const HTTP_SETTINGS = ["http.port", "http.host"]

const settingsOfOptions = new WeakMap<Option, string>()

/** Help text of a flag. A negating flag has a text of its own, since that of the setting would mean the opposite. */
const helpOf = ({ text, default: otherwise, negation }: ListedSetting): string =>
  negation ?? `${text} (default: ${otherwise})`

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
