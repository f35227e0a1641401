/** The names of metrics are public: the page about operations lists each of them, and no other. */
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { afterAll, expect, test } from "vitest"
import { PoolMetrics } from "../../../../runtime/metrics/pool-metrics.ts"
import { start, stopAll } from "../http/harness.ts"

afterAll(stopAll)

const page = readFileSync(fileURLToPath(new URL("../../../../docs/operations.md", import.meta.url)), "utf8")

/** The names in the first column of the table. */
const listed = (): ReadonlyArray<string> => {
  const [, rows = ""] = /^\| `callboard_…` \| \|\n(.*?)\n\n/ms.exec(page) ?? []
  return rows
    .split("\n")
    .flatMap((row) => [...(row.split("|")[1] ?? "").matchAll(/`(\w+)`/g)].map(([, name]) => `callboard_${name}`))
}

const namesIn = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(/^# TYPE (\w+)/gm)].map(([, name = ""]) => name)

test("the page lists each metric of a service and of a pool", async () => {
  const { ask } = await start()
  const pool = new PoolMetrics(1, async () => ({ alive: 1, ready: 1 }))
  const found = [...namesIn((await ask("GET", "/metrics")).text), ...namesIn(await pool.text())]
  expect(found.toSorted()).toEqual(listed().toSorted())
})
