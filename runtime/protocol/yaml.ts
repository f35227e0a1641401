/**
 * YAML as PyYAML's safe loader reads it and its safe dumper writes it: plain values, `!!binary`, timestamps, `!!set`,
 * `!!omap`, `!!pairs`, merge keys; any other tag (`!!python/object` above all) is refused.
 *
 * The library's own YAML 1.1 rules for what a plain word means differ from PyYAML's in places that matter (`y` is a text
 * there, `08` and `1e5` are texts, too), so the rules of PyYAML 6 stand here.
 */
import { Result } from "effect"
import { parseDocument, type ScalarTag, stringify, type Tags } from "yaml"
import { decodeBase64, encodeBase64 } from "./base64.ts"
import { type Codec, type CodecFailure, MAX_DEPTH } from "./codec.ts"
import { readFailure, tooDeep, unserialisable, writeFailure } from "./codec-failure.ts"
import { dateText, Exact, exact, exactDate, isSafeEntry } from "./value.ts"

// ── what a plain word means ──────────────────────────────────────────────────────────────────────────────────────────

const bool: ScalarTag = {
  identify: (value) => typeof value === "boolean",
  default: true,
  tag: "tag:yaml.org,2002:bool",
  test: /^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$/,
  resolve: (text) => /^(?:y|t|on)/i.test(text),
  stringify: ({ value }) => (value === true ? "true" : "false"),
}

/** Python 3.11 refuses longer ones, because reading them takes time that grows with their square. */
const MAX_DIGITS = 4300

/** A number where one can hold the integer. */
const integer = (text: string, radix: 2 | 8 | 10 | 16): number | bigint => {
  if (text.length > MAX_DIGITS) throw new SyntaxError(`an integer of more than ${MAX_DIGITS} digits`)
  const negative = text.startsWith("-")
  const digits = text.replace(/^[-+]/, "").replaceAll("_", "")
  const bare = radix === 10 ? digits : radix === 8 ? `0o${digits.replace(/^0+(?=\d)/, "")}` : digits
  const value = BigInt(bare)
  const signed = negative ? -value : value
  const number = Number(signed)
  return Number.isSafeInteger(number) ? number : signed
}

const isInteger = (value: unknown): boolean => typeof value === "bigint" || Number.isInteger(value)

const intTag = (test: RegExp, resolve: (text: string) => number | bigint, format?: string): ScalarTag => ({
  identify: (value) => format === undefined && isInteger(value),
  default: true,
  tag: "tag:yaml.org,2002:int",
  ...(format === undefined ? {} : { format }),
  test,
  resolve,
  stringify: ({ value }) => String(value),
})

const sexagesimal = (text: string): number => {
  const sign = text.startsWith("-") ? -1 : 1
  const parts = text.replace(/^[-+]/, "").replaceAll("_", "").split(":")
  return sign * parts.reduce((sum, part) => sum * 60 + Number(part), 0)
}

const integers: ReadonlyArray<ScalarTag> = [
  intTag(/^[-+]?0b[01_]+$/, (text) => integer(text, 2), "BIN"),
  intTag(/^[-+]?0x[0-9a-fA-F_]+$/, (text) => integer(text, 16), "HEX"),
  intTag(/^[-+]?0[0-7_]+$/, (text) => integer(text, 8), "OCT"),
  intTag(/^[-+]?(?:0|[1-9][0-9_]*)$/, (text) => integer(text, 10)),
  intTag(/^[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+$/, sexagesimal, "TIME"),
]

/** PyYAML wants a dot and a signed exponent: `1.0e+20`. */
const floatText = (value: number): string => {
  if (Number.isNaN(value)) return ".nan"
  if (!Number.isFinite(value)) return value > 0 ? ".inf" : "-.inf"
  const text = String(value)
  if (!text.includes("e")) return text.includes(".") ? text : `${text}.0`
  return text.includes(".") ? text : text.replace("e", ".0e")
}

const floats: ReadonlyArray<ScalarTag> = [
  {
    identify: (value) => typeof value === "number",
    default: true,
    tag: "tag:yaml.org,2002:float",
    test: /^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/,
    resolve: (text) => {
      const word = text.toLowerCase().replace(/^[-+]/, "")
      if (word === ".nan") return Number.NaN
      if (word === ".inf") return text.startsWith("-") ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
      return Number(text.replaceAll("_", ""))
    },
    stringify: ({ value }) => floatText(Number(value)),
  },
  {
    identify: () => false,
    default: true,
    tag: "tag:yaml.org,2002:float",
    format: "TIME",
    test: /^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*$/,
    resolve: sexagesimal,
    stringify: ({ value }) => floatText(Number(value)),
  },
]

/** `2031-5-2 7:07:26.5 +3` as `2031-05-02T07:07:26.5+03:00`. PyYAML: without a zone it is naive, and a day alone is a date. */
const TIMESTAMP =
  /^(\d{4})-(\d\d?)-(\d\d?)(?:[Tt]|[ \t]+)(\d\d?):(\d\d):(\d\d)(?:\.(\d*))?(?:[ \t]*(?:([Zz])|([-+])(\d\d?)(?::?(\d\d))?))?$/
const DAY = /^\d{4}-\d\d-\d\d$/

const two = (text: string | undefined): string => (text ?? "").padStart(2, "0")

const timestampOf = (text: string): unknown => {
  if (DAY.test(text)) return exact("date", text)
  const match = TIMESTAMP.exec(text)
  if (match === null) return undefined
  const [, year, month, day, hour, minute, second, fraction, utc, sign, zoneHours, zoneMinutes] = match
  const zone = utc !== undefined ? "+00:00" : sign === undefined ? "" : `${sign}${two(zoneHours)}:${zoneMinutes ?? "00"}`
  const date = exactDate(
    `${year}-${two(month)}-${two(day)}T${two(hour)}:${minute}:${second}${fraction ? `.${fraction}` : ""}${zone}`,
  )
  return Result.isSuccess(date) ? date.success : undefined
}

const timestamp: ScalarTag = {
  identify: (value) => value instanceof Date || (value instanceof Exact && value.type === "date"),
  default: true,
  tag: "tag:yaml.org,2002:timestamp",
  test: /^\d{4}-(?:\d\d-\d\d$|\d\d?-\d\d?(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d)/,
  resolve: (text, onError) => {
    const value = timestampOf(text)
    if (value === undefined) onError(`${text} is no date or time`)
    return value
  },
  stringify: ({ value }) => (value instanceof Date ? dateText(value).replace("T", " ") : String(value)),
}

const binary: ScalarTag = {
  identify: (value) => value instanceof Uint8Array,
  default: false,
  tag: "tag:yaml.org,2002:binary",
  resolve: (text, onError) => {
    try {
      return decodeBase64(text)
    } catch {
      onError("!!binary is not base64")
      return undefined
    }
  },
  stringify: ({ value }) => (value instanceof Uint8Array ? `"${encodeBase64(value)}"` : '""'),
}

/** Tags by name are the library's own. Order matters: the first whose test matches counts. */
const tags: Tags = ["null", bool, ...integers, ...floats, timestamp, binary, "set", "omap", "pairs"]

// ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const decoder = new TextDecoder("utf-8", { fatal: true })

/** Maps with text keys as plain objects, without unsafe keys; other maps stay what they are. */
const settle = (value: unknown, depth: number): unknown => {
  if (typeof value !== "object" || value === null || value instanceof Date || value instanceof Exact) return value
  if (ArrayBuffer.isView(value)) return value
  if (depth === 0) throw tooDeep()
  if (Array.isArray(value)) return value.map((item: unknown) => settle(item, depth - 1))
  if (value instanceof Set) return new Set([...value].map((item: unknown) => settle(item, depth - 1)))
  return value instanceof Map ? settleMap(value, depth) : value
}

const settleMap = (map: ReadonlyMap<unknown, unknown>, depth: number): unknown => {
  const plain: Record<string, unknown> = {}
  for (const [key, item] of map) {
    // PyYAML: "found unhashable key".
    if (typeof key === "object" && key !== null) throw new SyntaxError("a key of a map is a list or a map")
    if (typeof key !== "string") return new Map([...map].map(([name, value]) => [name, settle(value, depth - 1)]))
    const value = settle(item, depth - 1)
    if (isSafeEntry(key, value)) plain[key] = value
  }
  return plain
}

const options = {
  version: "1.1",
  schema: "failsafe",
  customTags: tags,
} as const

const read = (bytes: Uint8Array): unknown => {
  const document = parseDocument(decoder.decode(bytes), { ...options, merge: true, uniqueKeys: false, logLevel: "silent" })
  // An unknown tag is a mere warning to the library; PyYAML's safe loader refuses it.
  const problem = document.errors[0] ?? document.warnings[0]
  if (problem !== undefined) throw new SyntaxError(problem.message.split("\n")[0])
  const value: unknown = document.toJS({ mapAsMap: true, maxAliasCount: 100 })
  return settle(value, MAX_DEPTH)
}

const decode = (bytes: Uint8Array): Result.Result<unknown, CodecFailure> => {
  try {
    return Result.succeed(read(bytes))
  } catch (cause) {
    return Result.fail(readFailure(cause, "YAML"))
  }
}

// ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The value in the library's terms. A copy. */
const prepare = (value: unknown, depth: number, path: string): unknown => {
  switch (typeof value) {
    case "string":
    case "boolean":
    case "number":
    case "bigint":
      return value
    case "undefined":
      return null
    case "object":
      return value === null ? null : prepareObject(value, depth, path)
    default:
      throw unserialisable(path, `is a ${typeof value}, which cannot be sent`)
  }
}

const prepareObject = (value: object, depth: number, path: string): unknown => {
  if (depth === 0) throw tooDeep()
  if (Array.isArray(value)) return value.map((item: unknown, at) => prepare(item, depth - 1, `${path}[${at}]`))
  if (value instanceof Date) {
    if (dateText(value) === "") throw unserialisable(path, "is an invalid date")
    return value
  }
  if (value instanceof Exact) {
    if (value.type === "date") return value
    throw unserialisable(path, `is a ${value.type}, which YAML has no form for; send JSON`)
  }
  if (value instanceof Uint8Array) return value
  if (value instanceof ArrayBuffer) return new Uint8Array(value)
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
  if (value instanceof Set) return new Set([...value].map((item: unknown) => prepare(item, depth - 1, path)))
  if (value instanceof Map) return prepareEntries([...value], depth, path)
  if ("toJSON" in value && typeof value.toJSON === "function") return prepare(value.toJSON(""), depth - 1, path)
  return prepareEntries(Object.entries(value), depth, path)
}

const prepareEntries = (entries: ReadonlyArray<readonly [unknown, unknown]>, depth: number, path: string): unknown => {
  const map = new Map<unknown, unknown>()
  for (const [key, item] of entries) {
    if (typeof key === "object" && key !== null) throw unserialisable(path, "has a key that is a list or a map")
    if (key === "<<" || key === "=") throw unserialisable(path, `has the key "${key}", which YAML takes for an instruction`)
    if (item !== undefined && key !== "__proto__") map.set(key, prepare(item, depth - 1, `${path}.${String(key)}`))
  }
  return map
}

const encoder = new TextEncoder()

const encode = (value: unknown): Result.Result<Uint8Array, CodecFailure> => {
  try {
    const text = stringify(prepare(value, MAX_DEPTH, ""), { ...options, aliasDuplicateObjects: false, lineWidth: 0 })
    return Result.succeed(encoder.encode(text))
  } catch (cause) {
    return Result.fail(writeFailure(cause, "YAML"))
  }
}

/** `yaml` in Celery. */
export const yamlCodec: Codec = {
  contentType: "application/x-yaml",
  aliases: ["application/yaml", "text/yaml"],
  contentEncoding: "utf-8",
  holds: "task",
  decode,
  encode,
}
