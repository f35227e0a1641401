/** A wrong setting. The message names the setting, where it was given, and what it must be. */
export class ConfigError extends Error {
  readonly _tag = "ConfigError"
  override readonly name = "ConfigError"
}
