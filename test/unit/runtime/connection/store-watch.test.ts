import { expect, test } from "vitest"
import { connectTransport } from "../../../../runtime/connection/connect.ts"
import { connectionOf } from "../../../../runtime/connection/connection.ts"
import { StoreMirror } from "../../../../runtime/connection/store-watch.ts"
import { generateId } from "../../../../runtime/id.ts"
import { makeLog } from "../../../../runtime/log/log.ts"
import type { Transport } from "../../../../runtime/transport/job-store/transport.ts"
import { watchStore } from "../../../../runtime/transport/job-store/watch-store.ts"
import type { Store } from "../../../../runtime/transport/store.ts"
import { eventually } from "../../../support/servers/process.ts"

const encode = (text: string) => new TextEncoder().encode(text)
const decode = (bytes: Uint8Array) => {
  const text = new TextDecoder().decode(bytes)
  return text === "unreadable" ? undefined : text
}

/**
 * A connection to memory whose watch can be muted, whose listing can be made to fail, and which can report a
 * reconnection.
 */
const shaky = async () => {
  const inner = await connectTransport(`memory://${generateId()}`, {})
  const { store } = connectionOf(inner)
  const faults = { deaf: false, failing: 0, lists: 0 }
  const shakyStore: Store = {
    get: (key) => store.get(key),
    write: (operations) => store.write(operations),
    now: () => store.now(),
    list: (options) => {
      faults.lists++
      return faults.failing-- > 0 ? Promise.reject(new Error("out of reach")) : store.list(options)
    },
    watch: (prefix, listener, signal) =>
      watchStore(store, prefix, (change) => (faults.deaf ? undefined : listener(change)), signal),
  }
  const listeners = new Set<(status: "connected" | "disconnected") => void>()
  const transport: Transport = {
    name: inner.name,
    capabilities: inner.capabilities,
    jobs: inner.jobs,
    store: shakyStore,
    ...(inner.broadcast === undefined ? {} : { broadcast: inner.broadcast }),
    onStatus: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    close: () => inner.close(),
  }
  const comesBack = () => {
    for (const listen of listeners) listen("connected")
  }
  return { connection: connectionOf(transport), faults, comesBack }
}

const put = (store: Store, key: string, text: string) => store.write([{ key, value: encode(text) }])

test("holds what was there before and follows what changes", async () => {
  const { connection } = await shaky()
  const stop = new AbortController()
  await put(connection.store, "a/1", "one")
  await put(connection.store, "a/2", "unreadable")
  await put(connection.store, "b/1", "other")
  const told: Array<string> = []
  const mirror = new StoreMirror({
    connection,
    prefix: "a/",
    decode,
    log: makeLog({ level: "none" }),
    onEntry: (key, entry) => told.push(`${key} ${entry}`),
    signal: stop.signal,
  })
  await mirror.ready
  expect([...mirror.entries]).toEqual([["a/1", "one"]])
  await put(connection.store, "a/3", "three")
  await put(connection.store, "a/1", "uno")
  await eventually(() => mirror.entries.get("a/1") === "uno" && mirror.entries.size === 2, { message: "it follows" })
  await connection.store.write([{ key: "a/3", value: null }])
  await eventually(() => mirror.entries.size === 1, { message: "it forgets what was removed" })
  expect(told).toEqual(["a/1 one", "a/3 three", "a/1 uno"])
  stop.abort()
})

test("what happened while the transport was away is read when it is back", async () => {
  const { connection, faults, comesBack } = await shaky()
  const stop = new AbortController()
  await put(connection.store, "a/1", "one")
  const mirror = new StoreMirror({
    connection,
    prefix: "a/",
    decode,
    log: makeLog({ level: "none" }),
    signal: stop.signal,
  })
  await mirror.ready
  faults.deaf = true
  await put(connection.store, "a/2", "two")
  await connection.store.write([{ key: "a/1", value: null }])
  faults.deaf = false
  faults.failing = 1
  comesBack()
  await eventually(() => mirror.entries.has("a/2"), { message: "it reads again, also after a failure" })
  expect([...mirror.entries]).toEqual([["a/2", "two"]])
  stop.abort()
})

test("is not ready before it could read", async () => {
  const { connection, faults } = await shaky()
  const stop = new AbortController()
  faults.failing = 1
  let isReady = false
  const mirror = new StoreMirror({
    connection,
    prefix: "a/",
    decode,
    log: makeLog({ level: "none" }),
    signal: stop.signal,
  })
  void mirror.ready.then(() => {
    isReady = true
  })
  await eventually(() => faults.lists === 1, { message: "it tries" })
  expect(isReady).toBe(false)
  await mirror.ready
  expect(faults.lists).toBe(2)
  stop.abort()
})
