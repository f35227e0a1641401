/** The list of the deliveries that a worker holds. */
import { expect, test } from "vitest"
import type { JobDelivery } from "../../../../runtime/transport/job-store/transport.ts"
import { ActiveDelivery, HeldDeliveries } from "../../../../runtime/worker/active-delivery.ts"

const delivery = (token: string): JobDelivery => ({
  token,
  fence: token,
  queue: "default",
  level: 4,
  sequence: 1,
  fresh: true,
  deliveries: 1,
  message: { undecodable: "not needed here", raw: new Uint8Array() },
})

test("holds those that were added and not removed, in whatever order they go", () => {
  const held = new HeldDeliveries()
  const all = Array.from("abcdef", (token) => new ActiveDelivery(delivery(token), 0))
  for (const each of all) held.add(each)
  const left = new Set(all)
  for (const at of [0, 3, 5, 1]) {
    const each = all[at]
    if (each === undefined) throw new Error("there is none")
    held.remove(each)
    // What has gone already is passed over.
    held.remove(each)
    left.delete(each)
    expect([held.size, new Set(held.values())]).toEqual([left.size, left])
  }
})

test("what goes while all are looked at does not hide another one", () => {
  const held = new HeldDeliveries()
  for (const token of "abc") held.add(new ActiveDelivery(delivery(token), 0))
  const seen: Array<string> = []
  for (const each of held.values()) {
    seen.push(each.delivery.token)
    held.remove(each)
  }
  expect([seen, held.size]).toEqual([["a", "b", "c"], 0])
})
