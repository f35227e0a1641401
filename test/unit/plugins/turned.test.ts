/** An operator or NTP sets the wall clock of a machine on which workers have tasks in hand. */
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, expect, test } from "vitest"
import { generateId } from "../../../runtime/id.ts"
import { startNats } from "../../support/servers/nats.ts"
import { spawnScript, temporaryFolder } from "../../support/servers/process.ts"

const HOUR = 3_600_000

const folder = temporaryFolder()
afterAll(() => folder.remove())

/** What a process sees whose clock is set by `ms`. */
const turned = async (url: string, ms: number) => {
  const script = fileURLToPath(new URL("turned.ts", import.meta.url))
  await using child = spawnScript(script, [url, `turned-${generateId()}`, String(ms)])
  await child.waitForLine(/^\{/, 60_000)
  return JSON.parse(child.stdout.split("\n").find((line) => line.startsWith("{")) ?? "")
}

/** From `low` to a time that a busy machine keeps too. */
const about = (low: number) => ({
  asymmetricMatch: (ms: unknown) => typeof ms === "number" && ms >= low && ms < low + 5_000,
  toString: () => `about ${low} ms`,
})

const committed = { status: "committed", revision: "" }

const healthy = {
  kept: true,
  settled: [committed],
  ended: [committed, committed],
  alive: [true],
  again: { ids: [], ms: about(3_950) },
  dead: { ids: ["dead"], ms: about(0) },
  empty: { ids: [], ms: about(1_950) },
  noon: [],
  soon: { ids: ["soon"], ms: about(200) },
  due: { ids: ["due"], ms: about(1_000) },
  back: { ids: ["back"], ms: about(1_000) },
  quick: { ids: [], ms: about(450) },
}

test.concurrent.each([
  ["forward", HOUR],
  ["back", -HOUR],
])(
  "nats, an hour %s: leases go on and end, waits are as long as asked for, nothing comes twice",
  async (_, ms) => {
    await using server = await startNats()
    expect(await turned(server.url, ms)).toEqual(healthy)
  },
  120_000,
)

test.concurrent.each([
  ["forward", HOUR],
  ["back", -HOUR],
])(
  "sqlite, an hour %s: leases go on and end, waits are as long as asked for, nothing comes twice",
  async (_, ms) => {
    const seen = await turned(`sqlite:${join(folder.path, `${generateId()}.db`)}`, ms)
    // The clock of the machine is the one by which a task is due there.
    expect(seen).toEqual({ ...healthy, noon: ms > 0 ? ["noon"] : [] })
  },
  120_000,
)

test.concurrent.each([
  ["forward", HOUR],
  ["back", -HOUR],
])(
  "memory, an hour %s: leases go on and end, waits are as long as asked for, nothing comes twice",
  async (_, ms) => {
    expect(await turned("memory://turned", ms)).toEqual(healthy)
  },
  120_000,
)
