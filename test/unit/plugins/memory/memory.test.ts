/** The memory transport under the conformance kit, and what only it promises. */
import { spawnSync } from "node:child_process"
import process from "node:process"
import { expect, test } from "vitest"
import { capabilities, memoryBoardOf, plugin } from "../../../../plugins/memory/mod.ts"
import type { ConnectOptions } from "../../../../runtime/transport/mod.ts"
import { registerPlugin } from "../../../kit/conformance.ts"
import type { Harness } from "../../../kit/mod.ts"
import { evalArguments } from "../../../support/servers/process.ts"
import { growing, readsOf } from "../bounded-lists.ts"

const url = new URL("memory://kit")

const harness: Harness = {
  name: "memory",
  slack: 5_000,
  capabilities,
  connect: (options) => plugin.connect(url, options),
  corrupt: async (queue, bytes, namespace) => memoryBoardOf(url, namespace).jobs.inject(queue, bytes),
}

registerPlugin(test, harness, { spared: "omit" })

const options = (namespace: string): ConnectOptions => ({ namespace, lease: 30_000, name: "test", timeout: 1_000 })

test("transports meet by name and namespace", async () => {
  const value = Uint8Array.of(1)
  const connect = (place: string, namespace: string) => plugin.connect(new URL(place), options(namespace))
  const [one, same, other] = await Promise.all([
    connect("memory:", "meet"),
    connect("memory:", "meet"),
    connect("memory://other", "meet"),
  ])
  await one.store.write([{ key: "a", value }])
  expect((await same.store.get(["a"]))[0]?.value).toEqual(value)
  expect(await other.store.get(["a"])).toEqual([undefined])
})

test("an option of the URL that does not exist is refused by name", async () => {
  const connect = (place: string) => plugin.connect(new URL(place), options("options"))
  await expect(connect("memory://x?bogus=1")).rejects.toThrow("?bogus is not an option of memory:; it has ?ns, ?lease")
  await (await connect("memory://x?ns=options&lease=30")).close()
})

test("a process ends although tasks are scheduled and in hand, unless a pull waits for them", () => {
  const script = `
    const { memory } = await import(${JSON.stringify(new URL("../../../support/memory.ts", import.meta.url).href)})
    const transport = await memory.connect(new URL("memory:"), { namespace: "a", lease: 30_000, name: "a", timeout: 1_000 })
    const message = { headers: {}, properties: { content_type: "", content_encoding: "" }, body: new Uint8Array(0) }
    const posting = { id: "a", run: 1, retries: 0, queue: "a", level: 4, message }
    const never = new AbortController().signal
    await transport.jobs.publish([posting, { ...posting, id: "b", due: Date.now() + 500 }, { ...posting, id: "c", due: Date.now() + 60_000 }])
    await transport.jobs.take({ queues: ["a"], max: 1, wait: 0 }, never)
    const found = await transport.jobs.take({ queues: ["a"], max: 1, wait: 10_000 }, never)
    console.log(found.length, "came")
  `
  const { status, stdout } = spawnSync(process.execPath, evalArguments(script), { encoding: "utf8", timeout: 15_000 })
  expect({ status, stdout: stdout.trim() }).toEqual({ status: 0, stdout: "1 came" })
})

test("a list reads as much with 20,000 jobs as with 1,000", async () => {
  const reads = await readsOf((namespace) => plugin.connect(new URL("memory://lists"), options(namespace)))
  expect(growing(reads)).toEqual([])
})
