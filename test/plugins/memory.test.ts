/** The memory transport under the conformance kit, and what only it promises. */
import { expect, test } from "vitest"
import { capabilities, placeOf, plugin } from "../../plugins/memory/mod.ts"
import type { ConnectOptions } from "../../runtime/transport.ts"
import { type Harness, register } from "../kit/mod.ts"

const url = new URL("memory://kit")

const harness: Harness = {
  name: "memory",
  capabilities,
  connect: (options) => plugin.connect(url, options),
  corrupt: async (queue, bytes, namespace) => placeOf(url, namespace).board.inject(queue, bytes),
}

register(test, harness, { spared: "omit" })

const options = (namespace: string): ConnectOptions => ({ namespace, lease: 30_000, name: "test", timeout: 1_000 })

test("transports meet by name and namespace", async () => {
  const value = Uint8Array.of(1)
  const connect = (place: string, namespace: string) => plugin.connect(new URL(place), options(namespace))
  const [one, same, other] = await Promise.all([
    connect("memory:", "meet"),
    connect("memory:", "meet"),
    connect("memory://other", "meet"),
  ])
  await one.store?.write([{ key: "a", value }])
  expect((await same.store?.get("a"))?.value).toEqual(value)
  expect(await other.store?.get("a")).toBeUndefined()
})
