/** What stands in the table of a workload, and in the chart. */
import { expect, test } from "vitest"
import { chart } from "./chart.ts"
import type { TableResult } from "./result.ts"
import { tableText } from "./table.ts"

const table: TableResult = {
  workload: "end-to-end",
  title: "End to end",
  main: "perSecond",
  better: "more",
  columns: [
    { key: "perSecond", title: "jobs/s" },
    { key: "broker", title: "broker CPU µs" },
    { key: "rssMiB", title: "MiB" },
  ],
  load: [0.5, 1.25],
  rows: [
    {
      name: "Callboard, nats",
      durability: "in the server's file",
      ratios: { "of peer": ["BullMQ, Node", "BullMQ, Bun"] },
      rounds: [
        { perSecond: 15_000, broker: 30 },
        { perSecond: 18_000, broker: 31 },
        { perSecond: 16_000, broker: 32 },
      ],
    },
    { name: "BullMQ, Node", durability: "memory", rounds: [{ perSecond: 10_000 }, { perSecond: 20_000 }, undefined] },
    {
      name: "BullMQ, Bun",
      durability: "memory",
      rounds: [undefined, undefined, undefined],
      problem: "not measured: gone",
    },
  ],
}

const cellsOf = (name: string): ReadonlyArray<string> =>
  (
    tableText(table)
      .split("\n")
      .find((line) => line.startsWith(`| ${name} `)) ?? ""
  )
    .split("|")
    .slice(2, -1)
    .map((cell) => cell.trim())

test("a row has its median with least and most, its ratio and its durability", () => {
  expect(cellsOf("Callboard, nats")).toEqual([
    "16,000 (15,000–18,000)",
    "31 (30–32)",
    // Of the rounds in which both were measured: 1.5 and 0.9.
    "1.20 (0.90–1.50)",
    "in the server's file",
  ])
})

test("a column that no row has is left out, and so is nothing else", () => {
  expect(tableText(table)).not.toContain("MiB")
  expect(cellsOf("BullMQ, Node")).toEqual(["15,000 (10,000–20,000)", "–", "–", "memory"])
})

test("a row without figures says why, and the load stands below", () => {
  expect(cellsOf("BullMQ, Bun")).toEqual(["–", "–", "–", "memory"])
  expect(tableText(table)).toContain("- BullMQ, Bun: not measured: gone\nLoad average 0.5 before, 1.3 after.")
})

test("the chart has a bar for each row with figures, as long as its median", () => {
  const about = { began: "2030-01-01T00:00:00Z", form: "short form", rounds: 3, machine: "one", versions: {} }
  const drawn = chart({ ...about, tables: [table] })
  const widths = [...drawn.matchAll(/<rect x="330" [^>]*width="([\d.]+)"/g)].map(([, width]) => Number(width))
  expect(widths).toEqual([336, 315])
  expect(drawn).not.toContain("BullMQ, Bun")
})
