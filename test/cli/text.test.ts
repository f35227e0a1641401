/** Text that the command line prints for people: tables, durations, example inputs, advice on misspelt words. */
import { stripVTControlCharacters } from "node:util"
import { Schema } from "effect"
import { describe, expect, test } from "vitest"
import * as z from "zod"
import { actor } from "../../runtime/actor/actor.ts"
import { printAnswers } from "../../runtime/cli/commands/remote.ts"
import { curlOf, exampleOf } from "../../runtime/cli/dev/process.ts"
import { listText, oneLine, shortId, spanText } from "../../runtime/cli/format.ts"
import { columns, type Output, outputFor, painter, shown, wrapped } from "../../runtime/cli/output.ts"
import type { Reply } from "../../runtime/cluster/remote-command.ts"
import { takesColour } from "../../runtime/log/log.ts"
import { jsonSchemaOf } from "../../runtime/options/json-schema.ts"
import { sampleOf } from "../../runtime/options/sample.ts"

test("columns are as wide as what is seen in them", () => {
  const paint = painter(true)
  expect(
    columns([
      ["a", "b"],
      [paint("long", "red"), "c"],
      ["x", ""],
    ]),
  ).toBe(`a     b\n${paint("long", "red")}  c\nx`)
})

test("columns are cut where a line would be too long, the longest first, and short ones last", () => {
  const paint = painter(true)
  const long = "x".repeat(100)
  const lines = columns([["12:00:00", paint(long, "red"), "queued", `${long}${long}`]], 60).split("\n")
  expect(stripVTControlCharacters(shown(lines[0] ?? ""))).toBe(
    `12:00:00  ${"x".repeat(19)}…  queued  ${"x".repeat(19)}…`,
  )
  expect(lines[0]).toContain(paint("x".repeat(19), "red").slice(0, -1))
  const many = columns([Array.from({ length: 9 }, () => long)], 80)
  expect(many.length).toBeLessThanOrEqual(80)
  expect(columns([["a\u001b[2J", long]], 24)).toBe(`a\\u001b[2J  ${"x".repeat(11)}…`)
  expect(columns([["a", long]])).toBe(`a  ${long}`)
})

test("texts are wrapped between words, and within one that is too long", () => {
  expect(wrapped("one two three", 8)).toEqual(["one two", "three"])
  expect(wrapped("x".repeat(20), 8)).toEqual(["xxxxxxxx", "xxxxxxxx", "xxxx"])
  expect(wrapped("", 8)).toEqual([""])
})

test("answers of workers are tables without JSON in them", () => {
  const lines: Array<string> = []
  const output = { ...outputFor({}), paint: painter(false), note: (text: string) => void lines.push(text) }
  const told = (...answers: ReadonlyArray<Reply>): ReadonlyArray<string> => {
    lines.length = 0
    const table: Output["table"] = (heading, rows) => void lines.push(...columns([heading, ...rows], 80).split("\n"))
    printAnswers({ ...output, table }, answers)
    return lines
  }
  const id = "01a1fa93-51d8-7461-9e0e-0fcba4d01127"
  expect(told({ worker: "w1", value: [{ id, queue: "default", attempt: 2 }] }, { worker: "w2", value: [] })).toEqual([
    "WORKER  ID         QUEUE    ATTEMPT",
    "w1      …a4d01127  default  2",
    "w2      -",
  ])
  expect(
    told({ worker: "w1", value: [{ name: "a", methods: ["b", "c"] }] }, { worker: "w2", error: "is silent" }),
  ).toEqual(["WORKER  NAME  METHODS", "w1      a     b, c", "WORKER  ERROR", "w2      is silent"])
  const stats = { state: "idle", running: [id], jobs: [{ id }], uptimeSeconds: 90, memory: { heapUsed: 2048 } }
  expect(told({ worker: "w1", value: stats })).toEqual([
    "WORKER            w1",
    "state             idle",
    "running           …a4d01127",
    "jobs              1",
    "uptime            1 min 30 s",
    "memory heap used  2 KiB",
  ])
  expect(told()).toEqual(["no workers are running"])
})

test("what others wrote is shown by the terminal, and never obeyed", () => {
  const hostile = "\u001b]0;title\u0007\u001b[31m\r\u009b2J\u202e\u2066x\u2028\u007f"
  const harmless = "\\u001b]0;title\\u0007\\u001b[31m\\u000d\\u009b2J\\u202e\\u2066x\\u2028\\u007f"
  expect(shown(hostile)).toBe(harmless)
  expect(shown(`a\tb\nc ${hostile}`)).toBe(`a\tb\nc ${harmless}`)
  expect(shown(painter(true)(hostile, "red"))).toBe(`\u001b[31m${harmless}\u001b[0m`)
  // A cell stays in one line, and within its width.
  expect(
    shown(
      columns([
        ["a\nb", "c"],
        [painter(true)("long text", "red"), hostile],
      ]),
    ),
  ).toBe(`a\\u000ab   c\n\u001b[31mlong text\u001b[0m  ${harmless}`)
  // JSON is printed with the same meaning.
  expect(JSON.parse(shown(JSON.stringify({ hostile })))).toEqual({ hostile })
})

test("lists are cut where they would be long", () => {
  expect(listText(["a", "b"], 2)).toBe("a, b")
  expect(listText(["a", "b", "c", "d"], 2)).toBe("a, b and 2 more")
  expect(listText([])).toBe("")
})

test("colours by option, else on a terminal only, and never with NO_COLOR", () => {
  expect(takesColour("auto", { isTTY: true }, {})).toBe(true)
  expect(takesColour("auto", { isTTY: false }, {})).toBe(false)
  expect(takesColour("auto", { isTTY: true }, { NO_COLOR: "1" })).toBe(false)
  expect(takesColour("auto", {}, { FORCE_COLOR: "1" })).toBe(true)
  expect(takesColour("auto", { isTTY: true }, { FORCE_COLOR: "0" })).toBe(false)
  expect(takesColour("auto", {}, { FORCE_COLOR: "1", NO_COLOR: "1" })).toBe(false)
  expect(takesColour("always", {}, { NO_COLOR: "1" })).toBe(true)
  expect(takesColour("never", { isTTY: true }, { FORCE_COLOR: "1" })).toBe(false)
  expect(painter(false)("text", "red")).toBe("text")
})

test.each([
  [0.4, "0 ms"],
  [999, "999 ms"],
  [1_234, "1.23 s"],
  [12_345, "12.3 s"],
  [61_000, "1 min 1 s"],
  [3_600_000, "1 h"],
  [90_061_000, "1 d 1 h"],
])("%d ms are %s", (ms, text) => {
  expect(spanText(ms)).toBe(text)
})

test("ids are cut at their beginning, texts at their end", () => {
  expect(shortId("01a1fa93-51d8-7461-9e0e-0fcba4d01127")).toBe("…a4d01127")
  expect(shortId("order-17")).toBe("order-17")
  expect(oneLine("two\n  lines")).toBe("two lines")
  expect(oneLine("x".repeat(200), 10)).toBe(`${"x".repeat(9)}…`)
})

describe("a made-up input", () => {
  const inner = z.object({ n: z.number().min(3), tags: z.array(z.enum(["a", "b"])), on: z.boolean() })
  const cases = [
    ["zod", z.object({ path: z.string(), at: z.iso.datetime(), url: z.url(), inner, left: z.string().optional() })],
    ["zod, several kinds", z.object({ either: z.union([z.literal("x"), z.number()]), code: z.string().min(10) })],
    [
      "effect",
      Schema.toStandardSchemaV1(
        Schema.Struct({
          name: Schema.String,
          count: Schema.Int.check(Schema.isGreaterThan(4)),
          kind: Schema.Literals(["one", "two"]),
          list: Schema.NonEmptyArray(Schema.String),
          left: Schema.optionalKey(Schema.String),
        }),
      ),
    ],
  ] as const
  test.each(cases)("passes the check of its schema: %s", async (_library, schema) => {
    const input = sampleOf(jsonSchemaOf(schema, "input"))
    const checked = await schema["~standard"].validate(input)
    expect({ input, issues: checked.issues }).toEqual({ input, issues: undefined })
    expect(input).not.toHaveProperty("left")
  })

  test("ends where a schema contains itself", () => {
    const schema = { type: "object", required: ["next"], properties: { next: { $ref: "#" } } }
    expect(JSON.stringify(sampleOf(schema)).length).toBeLessThan(200)
  })

  test("the example is the first method whose check takes what can be made up", async () => {
    const picky = actor("picky", {
      methods: {
        even: { input: z.number().refine((n) => n % 2 === 0 && n > 100), run: (n: number) => n },
        run: { input: z.object({ name: z.string() }), run: () => 1 },
      },
    })
    const example = await exampleOf([picky])
    expect(example).toMatchObject({ task: "picky", input: { name: "name" } })
  })

  test("quotes survive the shell", () => {
    expect(curlOf({ task: "a.b", input: { text: "it's" } }, "http://x", true)).toBe(
      `curl -s http://x/v1/jobs -H 'content-type: application/json' -H 'prefer: wait=10' -H "authorization: Bearer $TOKEN" -d '{"task":"a.b","input":{"text":"it'\\''s"}}'`,
    )
  })
})
