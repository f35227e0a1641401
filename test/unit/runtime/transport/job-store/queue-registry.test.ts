/** The list of queues: what it asks of the store, and what it does when the store refuses. */
import { expect, test, vi } from "vitest"
import { QueueRegistry } from "../../../../../runtime/transport/job-store/queue-registry.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import type { Store } from "../../../../../runtime/transport/store.ts"

const storeOf = (write: Store["write"]) => {
  const keys = new Set<string>()
  const entry = (key: string) => (keys.has(key) ? { key, value: new Uint8Array(0), revision: "1" } : undefined)
  return {
    get: vi.fn(async (asked: ReadonlyArray<string>) => asked.map(entry)),
    write: vi.fn(async (operations: Parameters<Store["write"]>[0]) => {
      const written = await write(operations)
      for (const { key, value } of operations) value === null ? keys.delete(key) : keys.add(key)
      return written
    }),
    list: vi.fn(async () => [...keys].flatMap((key) => entry(key) ?? [])),
    now: async () => Date.now(),
  }
}

test("a queue costs one question and one write, however often it is used", async () => {
  const store = storeOf(async (operations) => operations.map(() => "1"))
  const registry = new QueueRegistry(store)
  for (let n = 0; n < 100; n++) await Promise.all([registry.note("a"), registry.note("b")])
  expect(await registry.names()).toEqual(["a", "b"])
  expect([store.get.mock.calls.length, store.write.mock.calls.length]).toEqual([2, 2])
  // Another process reads it, and writes nothing.
  await new QueueRegistry(store).note("a")
  expect(store.write).toHaveBeenCalledTimes(2)
  await registry.remove("a")
  expect(await registry.names()).toEqual(["b"])
  await registry.note("a")
  expect(await registry.names()).toEqual(["b", "a"])
})

test("a store that refuses is asked again after a minute, not with each task, and fails none", async () => {
  vi.useFakeTimers()
  try {
    let refuses = true
    const store = storeOf(async (operations) => {
      if (refuses) throw new TransportError("unauthorized", "no permission")
      return operations.map(() => "1")
    })
    const registry = new QueueRegistry(store)
    for (let n = 0; n < 100; n++) await registry.note("a")
    expect(store.write).toHaveBeenCalledTimes(1)
    refuses = false
    vi.advanceTimersByTime(61_000)
    await registry.note("a")
    expect(await registry.names()).toEqual(["a"])
  } finally {
    vi.useRealTimers()
  }
})
