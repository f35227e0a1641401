/** Checks a configuration against the schema, and words what is wrong with it. */
import { Result, Schema, SchemaIssue } from "effect"
import { didYouMean } from "../options/suggest.ts"
import { ConfigError } from "./config-error.ts"
import { type Config, ConfigSchema } from "./schema.ts"
import { SETTINGS } from "./settings.ts"

const decode = Schema.decodeUnknownResult(ConfigSchema, { onExcessProperty: "error", errors: "all" })
const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** The first problem of a value: where it is, and what the value must be. */
export const issueOf = (issue: SchemaIssue.Issue): { readonly path: string; readonly message: string } => {
  const first = format(issue).issues[0]
  const path = (first?.path ?? []).map((key) => String(typeof key === "object" ? key.key : key)).join(".")
  const message = (first?.message ?? "is not valid").replace(/^Expected /, "must be ").replaceAll(" | ", " or ")
  return { path, message }
}

/** As {@link issueOf}, but an unknown name comes before every other problem. */
export const problemOf = (issue: SchemaIssue.Issue): ReturnType<typeof issueOf> & { readonly isUnknown: boolean } => {
  const unknown = format(issue).issues.find(({ message }) => message === "Expected no excess property")
  if (unknown === undefined) return { ...issueOf(issue), isUnknown: false }
  const path = (unknown.path ?? []).map((key) => String(typeof key === "object" ? key.key : key)).join(".")
  return { path, message: "is not known", isUnknown: true }
}

/** The valid names in the group of an unknown one, for "did you mean". */
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
