/** The list of those who wait for a slot of one limit, as several workers read and write it. */
import { expect, test } from "vitest"
import type { Store } from "../../../../runtime/transport.ts"
import { WaitingList } from "../../../../runtime/worker/limits/waiting.ts"
import { newStore } from "./stores.ts"

const KEY = "limit/a.run/"

const enter = (store: Store, list: WaitingList, ...places: ReadonlyArray<string>) =>
  store.write(places.map((place) => list.entering({ place, token: place, id: place, queue: "q" }, 60_000)))

test("shows whoever came among the first ones, also who is before where it was read from", async () => {
  const store = await newStore()
  const [mine, other] = [new WaitingList(store, KEY), new WaitingList(store, KEY)]
  await enter(store, other, "5", "7")
  expect((await mine.from("5", 2)).places).toEqual(["5", "7"])
  await enter(store, other, "6", "2")
  await other.tell("2")
  expect((await mine.from("5", 2)).places).toEqual(["5", "6"])
  expect((await mine.from("2", 2)).places).toEqual(["2", "5"])
})

test("is read once for many, and says where the next one is", async () => {
  const store = await newStore()
  const list = new WaitingList(store, KEY)
  await enter(store, list, "1", "2", "3")
  const front = await list.from("1", 3)
  expect(front.headAfter("1")).toBe("2")
  expect(front.headAfter("3")).toBeUndefined()
  // Somebody may have come behind them since.
  expect((await list.from("2", 1)).headAfter("3")).toBe("3+")
})

test("tells whoever has moved the head who was overlooked", async () => {
  const store = await newStore()
  const [mine, other] = [new WaitingList(store, KEY), new WaitingList(store, KEY)]
  await enter(store, other, "5")
  await mine.from("5", 1)
  expect(await mine.overlooked("6")).toBeUndefined()
  await enter(store, other, "4", "8")
  await other.tell("4")
  expect(await mine.overlooked("6")).toBe("4")
  expect(await mine.overlooked("3")).toBeUndefined()
  expect(await mine.overlooked(undefined)).toBe("4")
})
