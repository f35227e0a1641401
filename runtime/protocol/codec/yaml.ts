/**
 * YAML as PyYAML's safe loader reads it and its safe dumper writes it: plain values, `!!binary`, timestamps, `!!set`,
 * `!!omap`, `!!pairs`, merge keys; any other tag (`!!python/object` above all) is refused.
 *
 * The library's own YAML 1.1 rules for what a plain word means differ from PyYAML's in places that matter (`y` is a text
 * there, `08` and `1e5` are texts, too), so the rules of PyYAML 6 stand here.
 */
import * as Result from "effect/Result"
import { isAlias, isCollection, isPair, isScalar, Lexer, parseDocument, type ScalarTag, type Tags } from "yaml"
import { decodeBase64, Exact } from "../exact.ts"
import { isObject, isSafeEntry, unsafeKey } from "../guards.ts"
import { encoder, strictDecoder } from "../text.ts"
import { exact, exactDate } from "../value.ts"
import { type Codec, type CodecFailure, MAX_DEPTH, readFailure, tooDeep, writeFailure } from "./codec.ts"
import { writeYaml } from "./yaml-writer.ts"

// ── meaning of plain words ───────────────────────────────────────────────────────────────────────────────────────────

const bool: ScalarTag = {
  default: true,
  tag: "tag:yaml.org,2002:bool",
  test: /^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$/,
  resolve: (text) => /^(?:y|t|on)/i.test(text),
}

/** Python 3.11 refuses longer ones, because reading them takes time that grows with their square. */
const MAX_DIGITS = 4300

/** The integer as a number where it fits exactly, else as a bigint. */
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

const intTag = (test: RegExp, resolve: (text: string) => number | bigint): ScalarTag => ({
  default: true,
  tag: "tag:yaml.org,2002:int",
  test,
  resolve,
})

const sexagesimal = (text: string): number => {
  const sign = text.startsWith("-") ? -1 : 1
  const parts = text.replace(/^[-+]/, "").replaceAll("_", "").split(":")
  return sign * parts.reduce((sum, part) => sum * 60 + Number(part), 0)
}

const integers: ReadonlyArray<ScalarTag> = [
  intTag(/^[-+]?0b[01_]+$/, (text) => integer(text, 2)),
  intTag(/^[-+]?0x[0-9a-fA-F_]+$/, (text) => integer(text, 16)),
  intTag(/^[-+]?0[0-7_]+$/, (text) => integer(text, 8)),
  intTag(/^[-+]?(?:0|[1-9][0-9_]*)$/, (text) => integer(text, 10)),
  intTag(/^[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+$/, sexagesimal),
]

const floats: ReadonlyArray<ScalarTag> = [
  {
    default: true,
    tag: "tag:yaml.org,2002:float",
    test: /^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/,
    resolve: (text) => {
      const word = text.toLowerCase().replace(/^[-+]/, "")
      if (word === ".nan") return Number.NaN
      if (word === ".inf") return text.startsWith("-") ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
      return Number(text.replaceAll("_", ""))
    },
  },
  {
    default: true,
    tag: "tag:yaml.org,2002:float",
    test: /^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*$/,
    resolve: sexagesimal,
  },
]

/**
 * `2031-5-2 7:07:26.5 +3` as `2031-05-02T07:07:26.5+03:00`. PyYAML: without a zone it is naive, and a day alone is a
 * date.
 */
const TIMESTAMP =
  /^(?:\d{4}-\d\d-\d\d|(\d{4})-(\d\d?)-(\d\d?)(?:[Tt]|[ \t]+)(\d\d?):(\d\d):(\d\d)(?:\.(\d*))?(?:[ \t]*(?:(Z)|([-+])(\d\d?)(?::(\d\d))?))?)$/
const DAY = /^\d{4}-\d\d-\d\d$/

const two = (text: string | undefined): string => (text ?? "").padStart(2, "0")

const timestampOf = (text: string): unknown => {
  if (DAY.test(text)) return exact("date", text)
  const match = TIMESTAMP.exec(text)
  if (match === null) return undefined
  const [, year, month, day, hour, minute, second, fraction, utc, sign, zoneHours, zoneMinutes] = match
  const zone =
    utc !== undefined ? "+00:00" : sign === undefined ? "" : `${sign}${two(zoneHours)}:${zoneMinutes ?? "00"}`
  const date = exactDate(
    `${year}-${two(month)}-${two(day)}T${two(hour)}:${minute}:${second}${fraction ? `.${fraction}` : ""}${zone}`,
  )
  return Result.isSuccess(date) ? date.success : undefined
}

const timestamp: ScalarTag = {
  default: true,
  tag: "tag:yaml.org,2002:timestamp",
  test: TIMESTAMP,
  resolve: (text, onError) => {
    const value = timestampOf(text)
    if (value === undefined) onError(`${text} is not a date or time`)
    return value
  },
}

const binary: ScalarTag = {
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
}

/** Tags by name are the library's own. Order matters: the first whose test matches counts. */
const tags: Tags = ["null", bool, ...integers, ...floats, timestamp, binary, "set", "omap", "pairs"]

// ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Maps with text keys as plain objects, without unsafe keys; other maps stay what they are. */
const settle = (value: unknown, depth: number): unknown => {
  if (!isObject(value) || value instanceof Date || value instanceof Exact) return value
  if (ArrayBuffer.isView(value)) return value
  if (depth === 0) throw tooDeep()
  if (Array.isArray(value)) return value.map((item: unknown) => settle(item, depth - 1))
  if (value instanceof Set) return new Set([...value].map((item: unknown) => settle(item, depth - 1)))
  return value instanceof Map ? settleMap(value, depth) : value
}

const settleMap = (map: ReadonlyMap<unknown, unknown>, depth: number): unknown => {
  const plain: Record<string, unknown> = {}
  for (const [key, item] of map) {
    if (typeof key !== "string") return otherMap(map, depth)
    const value = settle(item, depth - 1)
    if (!isSafeEntry(key, value)) throw new SyntaxError(unsafeKey(key))
    plain[key] = value
  }
  return plain
}

const otherMap = (map: ReadonlyMap<unknown, unknown>, depth: number): unknown => {
  const settled = new Map<unknown, unknown>()
  for (const [key, item] of map) {
    const hashable = !isObject(key) || key instanceof Date || key instanceof Exact
    // PyYAML: "found unhashable key".
    if (!hashable) throw new SyntaxError("a key of a map is a list or a map")
    settled.set(key, settle(item, depth - 1))
  }
  return settled
}

const options = {
  version: "1.1",
  schema: "failsafe",
  customTags: tags,
  merge: true,
  uniqueKeys: false,
  logLevel: "error",
  // Pretty errors quote the source around each of them, which takes time that grows with the square of their number.
  prettyErrors: false,
} as const

/** Largest YAML that is read, in bytes: it takes up to four microseconds per byte, a hundred times as long as JSON. */
export const MAX_YAML_BYTES = 64 * 1024

/** Most values that a text may stand for once its aliases are replaced by what they name. */
const MAX_VALUES = 100_000

/**
 * What the lexer puts before a document, before the text of a plain word or a block, and where it ends a list or map by
 * itself.
 */
const DOCUMENT = "\u0002"
const SCALAR = "\u001f"
const FLOW_END = "\u0018"
const MARKS = [DOCUMENT, SCALAR, FLOW_END]

const CLOSERS: ReadonlyMap<string, string> = new Map([
  ["[", "]"],
  ["{", "}"],
])

/**
 * Checks the tokens of a text before it is parsed: for a text that opens too many lists, or closes some that are not open,
 * the parser would take seconds, and hundreds of bytes of memory per character.
 */
const survey = (text: string): void => {
  const open: Array<string> = []
  /** Lists and maps that begin on this line. */
  let begun = 0
  let before = ""
  let at = 0
  for (const token of new Lexer().lex(text)) {
    // The text of a scalar may be that of a bracket, brace or comma.
    const sign = before === SCALAR ? "" : token
    before = token
    const closer = CLOSERS.get(sign)
    if (closer !== undefined) open.push(closer)
    else if (sign === FLOW_END) open.length = 0
    else if (sign === "]" || sign === "}") {
      if (open.pop() !== sign) throw new SyntaxError(`an unmatched ${sign} (at character ${at})`)
    } else if (sign.endsWith("\n")) begun = 0
    else if (open.length === 0 && (sign === "-" || sign === "?" || sign === ":")) begun++
    if (open.length + begun > MAX_DEPTH) throw tooDeep()
    if (!MARKS.includes(token)) at += token.length
  }
}

/** The node that an anchor names, and how many values it stands for; no number while these are being counted. */
interface Named {
  values?: number
}

/**
 * How many values a node stands for. The library would follow each alias anew to find that out, which takes half a minute
 * for a kilobyte of lists that hold one another.
 */
const valuesOf = (node: unknown, names: Map<string, Named>): number => {
  if (isAlias(node)) {
    const { values } = names.get(node.source) ?? { values: 1 }
    // A list that holds itself.
    if (values === undefined) throw tooDeep()
    return values
  }
  if (isPair(node)) return valuesOf(node.key, names) + valuesOf(node.value, names)
  const named: Named = {}
  if ((isCollection(node) || isScalar(node)) && node.anchor !== undefined) names.set(node.anchor, named)
  let values = 1
  if (isCollection(node)) for (const item of node.items) values += valuesOf(item, names)
  if (values > MAX_VALUES) throw new SyntaxError(`aliases of more than ${MAX_VALUES} values`)
  named.values = values
  return values
}

const read = (text: string): unknown => {
  survey(text)
  const document = parseDocument(text, options)
  // An unknown tag is a mere warning to the library; PyYAML's safe loader refuses it.
  const problem = document.errors[0] ?? document.warnings[0]
  if (problem !== undefined) {
    if (problem.message.startsWith("Maximum call stack")) throw tooDeep()
    throw new SyntaxError(`${problem.message} (at character ${problem.pos[0]})`)
  }
  valuesOf(document.contents, new Map())
  const value: unknown = document.toJS({ mapAsMap: true, maxAliasCount: 100 })
  return settle(value, MAX_DEPTH)
}

const decode = (bytes: Uint8Array): Result.Result<unknown, CodecFailure> => {
  if (bytes.length > MAX_YAML_BYTES) {
    const message = `YAML of ${bytes.length} bytes; at most ${MAX_YAML_BYTES} are allowed; send JSON or msgpack`
    return Result.fail({ _tag: "CodecFailure", reason: "too-large", message })
  }
  try {
    return Result.succeed(read(strictDecoder.decode(bytes)))
  } catch (cause) {
    return Result.fail(readFailure(cause, "YAML"))
  }
}

const encode = (value: unknown): Result.Result<Uint8Array, CodecFailure> => {
  try {
    return Result.succeed(encoder.encode(writeYaml(value)))
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
