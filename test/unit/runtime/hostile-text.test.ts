/**
 * No regular expression takes time that grows with the square of the length of a text: senders of hostile texts could otherwise
 * block a process.
 */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Result } from "effect"
import { expect, test } from "vitest"
import { lineOf } from "../../../runtime/cli/failure.ts"
import { readText } from "../../../runtime/config/resolving.ts"
import { displayUrl, parseUrl } from "../../../runtime/connection/connect.ts"
import { parseRate } from "../../../runtime/options/limit.ts"
import { jsonCodec } from "../../../runtime/protocol/codec/json.ts"
import { parseDuration } from "../../../runtime/protocol/time.ts"
import { tracestateBeside } from "../../../runtime/protocol/trace-context.ts"
import { exact } from "../../../runtime/protocol/value.ts"

const root = fileURLToPath(new URL("../../..", import.meta.url))

interface Found {
  readonly where: string
  readonly expression: RegExp
}

const LITERAL =
  /(?<=(?:^|[=([,:!&|?{};>])\s*)\/((?:[^/\\[\n*]|\\.|\[(?:[^\]\\\n]|\\.)*\])(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])*)\/([dgimsuvy]*)/g

/** The compiled expression; `undefined` for text that only looks like one, such as a path in a template. */
const compiled = (source: string, flags: string | undefined): RegExp | undefined => {
  try {
    return new RegExp(source, flags)
  } catch {
    return undefined
  }
}

/** All literal expressions in the source, without those in comments. */
const expressions: ReadonlyArray<Found> = ["runtime", "plugins", "actors"].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.[jt]s$/.test(name))
    .flatMap((name) =>
      readFileSync(join(root, folder, name), "utf8")
        .split("\n")
        .flatMap((line, at) =>
          /^\s*(?:\/\/|\/?\*)/.test(line)
            ? []
            : [...line.matchAll(LITERAL)].flatMap(([, source = "", flags]) => {
                const expression = compiled(source, flags)
                return expression === undefined
                  ? []
                  : [{ where: `${folder}/${name}:${at + 1} /${source}/${flags}`, expression }]
              }),
        ),
    ),
)

const LENGTH = 10_000
/** Texts that are repeated to make a long text. */
const PUMPS = [
  "1",
  "0",
  "a",
  "A",
  " ",
  "\t",
  "\n",
  "/",
  "//",
  ":1",
  ".",
  "-",
  "_",
  ",",
  ":",
  ";",
  '"',
  "=",
  "@",
  "+",
  "~",
  "[",
  "?",
  "1.",
  "a.",
  "a/",
  "\u0000",
  "\u001b[",
]
/** Beginnings, which some expressions need before they look at the repeated part. */
const STARTS = [
  "",
  "1",
  "1.",
  "a",
  "a=",
  '"',
  "/",
  "x://",
  ";",
  "bearer ",
  "00:00:00.",
  "2031-05-02 00:00:00.",
  "at file:x",
  "a\n",
  "{",
]
/** The end of each text, which keeps expressions from matching all of it. */
const END = "\u0001!"

/** Shortest time of up to three tries, in milliseconds: another program may use the core during one of them. */
const fastest = (work: () => void, bound: number): number => {
  let min = Number.POSITIVE_INFINITY
  for (let tries = 0; tries < 3 && min > bound; tries++) {
    const from = performance.now()
    work()
    min = Math.min(min, performance.now() - from)
  }
  return min
}

const TEXTS = PUMPS.flatMap((pump) => STARTS.map((start) => start + pump.repeat(LENGTH / pump.length) + END))

// Linear expressions take 0.1 milliseconds at most, quadratic ones at least 50.
const BOUND_MS = 20

test("no expression of the source takes time that grows with the square of a text", { timeout: 120_000 }, () => {
  expect(expressions.length).toBeGreaterThan(100)
  const slow = expressions.flatMap(({ where, expression }) =>
    TEXTS.some((text) => fastest(() => void text.replace(expression, ""), BOUND_MS) > BOUND_MS) ? [where] : [],
  )
  expect(slow).toEqual([])
})

test("a quadratic expression would be found", () => {
  const text = `${"1".repeat(LENGTH)}${END}`
  expect(fastest(() => void /^(\d+\.?\d*)$/.test(text), BOUND_MS)).toBeGreaterThan(BOUND_MS)
})

const LONG = 200_000
const PARENT = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`
const digits = `${"1".repeat(LONG)}x`
const blanks = `1${" ".repeat(LONG)}x`

// Parsers of messages, headers, arguments and the configuration.
test.each<readonly [string, () => unknown]>([
  ["a decimal", () => exact("decimal", digits)],
  [
    "a message with a decimal",
    () => jsonCodec.decode(new TextEncoder().encode(`{"__type__":"decimal","__value__":"${digits}"}`)),
  ],
  ["a number of the configuration", () => readText("number", digits)],
  ["a duration", () => Result.isFailure(parseDuration(digits)) && Result.isFailure(parseDuration(blanks))],
  ["a rate", () => Result.isFailure(parseRate(digits)) && Result.isFailure(parseRate(blanks))],
  ["a tracestate", () => tracestateBeside(PARENT, `a=b${" ".repeat(16_000)}c`)],
  ["the message of an error", () => lineOf(new Error(`a${" ".repeat(LONG)}b`))],
  ["a URL", () => parseUrl(`x://[${"/".repeat(LONG)}`) ?? displayUrl(`x://[${"/".repeat(LONG)}`)],
])("%s of any length is read at once", (_name, work) => {
  expect(fastest(() => void work(), 1_000)).toBeLessThan(1_000)
})
