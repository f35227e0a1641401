/** A store without `watch` is listed again and again, so that its watchers still get the changes. */
import { expect, test } from "vitest"
import { watchStore } from "../../../../../runtime/transport/job-store/watch-store.ts"
import type { Store } from "../../../../../runtime/transport/store.ts"
import { LeastBoard, leastDriver } from "../../../../kit/driver/least-driver.ts"
import { eventually } from "../../../../support/servers/process.ts"

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

const changesOf = async (store: Store, signal: AbortSignal): Promise<Array<string>> => {
  const heard: Array<string> = []
  const note = ({ key, value }: { readonly key: string; readonly value?: Uint8Array }) =>
    heard.push(`${key}=${value === undefined ? "(none)" : new TextDecoder().decode(value)}`)
  await watchStore(store, "p.", note, signal)
  return heard
}

test("changes below a prefix are heard, what was there before is not, and nothing after the signal", async () => {
  const { store } = leastDriver(new LeastBoard(), { lease: 1_000 })
  expect(store.watch).toBeUndefined()
  await store.write([{ key: "p.before", value: bytes("0") }])
  const [stop, stopped] = [new AbortController(), new AbortController()]
  const heard = await changesOf(store, stop.signal)
  const late = await changesOf(store, stopped.signal)
  stopped.abort()
  await store.write([
    { key: "p.a", value: bytes("1") },
    { key: "px", value: bytes("2") },
  ])
  await eventually(() => heard.includes("p.a=1"))
  await store.write([
    { key: "p.a", value: null },
    { key: "p.b", value: bytes("3"), ttl: 4_000 },
  ])
  await eventually(() => heard.includes("p.a=(none)") && heard.includes("p.b=3"))
  await eventually(() => heard.includes("p.b=(none)"))
  expect(heard.filter((each) => each.startsWith("px") || each.startsWith("p.before"))).toEqual([])
  expect(late).toEqual([])
  stop.abort()
})
