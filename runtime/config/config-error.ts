/** A setting that cannot be used; the message says which, where it came from, and what would be right. */
export class ConfigError extends Error {
  readonly _tag = "ConfigError"
  override readonly name = "ConfigError"
}
