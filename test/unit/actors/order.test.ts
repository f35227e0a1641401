import { crashEverywhere, runActor, virtualClock } from "callboard/testing"
import { describe, expect, test } from "vitest"
import { httpShop, type Shop, ShopUnavailable } from "../../../actors/order/shop.ts"
import { orderActor } from "../../../actors/order.ts"
import { endpoint, statuses } from "./endpoint.ts"

const tea = { item: "tea", quantity: 2 }
const approved = { approved: true, by: "Ada" }

/** A shop that keeps a list of what it was asked to do. */
const shop = () => {
  const done: Array<string> = []
  const noting = (what: string) => async () => void done.push(what)
  const all: Shop = {
    reserve: noting("reserve"),
    release: noting("release"),
    ask: async (_order, reminder) => void done.push(reminder ? "remind" : "ask"),
    dispatch: async (_order, by) => void done.push(`dispatch for ${by}`),
  }
  return { ...all, done }
}

describe("order.place, in virtual time", () => {
  test.each([
    ["approved at once", [[0, approved]], "succeeded", undefined, ["reserve", "ask", "dispatch for Ada"]],
    [
      "approved on the third day",
      [[50, approved]],
      "succeeded",
      undefined,
      ["reserve", "ask", "remind", "dispatch for Ada"],
    ],
    [
      "refused",
      [[30, { approved: false, by: "Eve" }]],
      "failed",
      "NotApproved",
      ["reserve", "ask", "remind", "release"],
    ],
    [
      "decided twice",
      [
        [1, approved],
        [0, { approved: false, by: "Eve" }],
      ],
      "succeeded",
      undefined,
      ["reserve", "ask", "dispatch for Ada"],
    ],
    ["decided by nobody", [], "failed", "NotDecided", ["reserve", "ask", "remind", "release"]],
    ["decided by a value that is none", [[1, "yes"]], "failed", "InvalidDecision", ["reserve", "ask", "release"]],
  ] as const)("%s", async (_name, decisions, state, error, done) => {
    using clock = virtualClock()
    const own = shop()
    await using run = await runActor(orderActor({ shop: own }), { clock })
    const job = await run.submit.place(tea)
    const pass = async (hours: number) => {
      await clock.skip(hours * 3_600)
      await clock.advance("10 seconds")
    }
    const outcome = job.outcome({ timeout: "5 days" })
    await pass(0)
    for (const [hours, value] of decisions) {
      if (hours > 0) await pass(hours)
      await job.signal("decision", value)
    }
    for (let day = 0; day < 4; day++) await pass(24)
    expect(await outcome).toMatchObject({ state, ...(error === undefined ? {} : { error: { name: error } }) })
    expect(own.done).toEqual(done)
  })

  test("the goods of a cancelled order are given back", async () => {
    using clock = virtualClock()
    const own = shop()
    await using run = await runActor(orderActor({ shop: own }), { clock })
    const job = await run.submit.place(tea)
    await clock.advance("10 seconds")
    await clock.skip("1 hour")
    await clock.advance("10 seconds")
    expect(await job.find()).toMatchObject({ state: "scheduled" })
    await job.cancel()
    expect(await clock.until(job.outcome())).toMatchObject({ state: "cancelled" })
    expect(own.done).toEqual(["reserve", "ask", "release"])
  })

  test("wherever its worker dies, the goods of an order that nobody decides are given back", {
    timeout: 300_000,
  }, async () => {
    const own = shop()
    const ends = await crashEverywhere(orderActor({ shop: own }), {
      method: "place",
      input: tea,
      within: "4 days",
      begin: () => own.done.splice(0),
      look: () => new Set(own.done),
    })
    for (const { crash, job, seen } of ends) {
      expect([crash, job.state, job.error?.name, job.reverted]).toEqual([crash, "failed", "NotDecided", true])
      expect([crash, seen]).toEqual([crash, new Set(["reserve", "ask", "remind", "release"])])
    }
  })
})

describe("over HTTP", () => {
  test("the shop is sent each request once more when it is busy", async () => {
    await using shop = await endpoint(statuses(503, 204))
    await using run = await runActor(orderActor({ shop: httpShop(`http://127.0.0.1:${shop.port}/shop`) }))
    const job = await run.submit.place(tea)
    await job.signal("decision", approved)
    expect(await job.result({ timeout: 30 })).toEqual({ approvedBy: "Ada" })
    expect(shop.received.map(({ method, path, body }) => [method, path, body === "" ? "" : JSON.parse(body)])).toEqual([
      ["PUT", `/shop/reservations/${job.id}`, tea],
      ["PUT", `/shop/reservations/${job.id}`, tea],
      ["PUT", `/shop/approvals/${job.id}`, { ...tea, reminder: false }],
      ["PUT", `/shop/dispatches/${job.id}`, { ...tea, approvedBy: "Ada" }],
    ])
  })

  test.each([
    [409, "SoldOut"],
    [400, "ShopRefused"],
    [302, "ShopRefused"],
  ])("an order that the shop answers with %i fails as %s, and reserves nothing", async (status, name) => {
    await using shop = await endpoint((response) =>
      response.writeHead(response.req.method === "PUT" ? status : 404).end(),
    )
    await using run = await runActor(orderActor({ shop: httpShop(`http://127.0.0.1:${shop.port}/shop/`) }))
    const job = await run.submit.place(tea)
    expect(await job.outcome({ timeout: 30 })).toMatchObject({ state: "failed", error: { name } })
    expect(shop.received.map(({ method }) => method)).toEqual(["PUT", "DELETE"])
  })

  test("a shop that is away is reported as such, also to a request that is ended", async () => {
    const away = httpShop("http://127.0.0.1:1/")
    const order = { id: "1", ...tea }
    await expect(away.reserve(order, new AbortController().signal)).rejects.toThrow(ShopUnavailable)
    await expect(away.reserve(order, AbortSignal.abort(new Error("ended")))).rejects.toThrow("ended")
  })
})
