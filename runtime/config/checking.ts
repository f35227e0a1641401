/** Whether a configuration is valid, and what is wrong with it. */
import { Result, Schema, SchemaIssue } from "effect"
import { didYouMean } from "../options/suggest.ts"
import { ConfigError } from "./config-error.ts"
import { type Config, ConfigSchema } from "./schema.ts"
import { SETTINGS } from "./settings.ts"

const decode = Schema.decodeUnknownResult(ConfigSchema, { onExcessProperty: "error", errors: "all" })
const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** What is wrong with a value, in words. */
export const issueOf = (issue: SchemaIssue.Issue): { readonly path: string; readonly message: string } => {
  const first = format(issue).issues[0]
  const path = (first?.path ?? []).map((key) => String(typeof key === "object" ? key.key : key)).join(".")
  const message = (first?.message ?? "is not valid").replace(/^Expected /, "must be ").replaceAll(" | ", " or ")
  return { path, message }
}

/** The first thing that is wrong, an unknown name before all else. */
export const problemOf = (issue: SchemaIssue.Issue): ReturnType<typeof issueOf> & { readonly isUnknown: boolean } => {
  const unknown = format(issue).issues.find(({ message }) => message === "Expected no excess property")
  if (unknown === undefined) return { ...issueOf(issue), isUnknown: false }
  const path = (unknown.path ?? []).map((key) => String(typeof key === "object" ? key.key : key)).join(".")
  return { path, message: "is not known", isUnknown: true }
}

/** The names that are possible beside one that is not: those of its group. */
const siblingsOf = (path: string): ReadonlyArray<string> => {
  const group = path.includes(".") ? path.slice(0, path.lastIndexOf(".") + 1) : ""
  const names = group === "" ? Object.keys(ConfigSchema.fields) : SETTINGS.map((setting) => setting.path)
  return names.filter((name) => name.startsWith(group))
}

/** Checks what a configuration file exports. Fails with {@link ConfigError}, naming file and setting. */
export const checkConfig = (file: string, value: unknown): Config => {
  const decoded = decode(value)
  if (Result.isSuccess(decoded)) return decoded.success
  const { path, message, isUnknown } = problemOf(decoded.failure.issue)
  if (isUnknown) throw new ConfigError(`${file}: ${path} is not a setting${didYouMean(path, siblingsOf(path))}`)
  throw new ConfigError(path === "" ? `${file}: its default export ${message}` : `${file}: ${path}: ${message}`)
}
