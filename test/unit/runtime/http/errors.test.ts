/** Causes of failures over HTTP. */
import { actor } from "callboard"
import { afterEach, expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { start as startWorker } from "../../../support/services.ts"
import { finished, start, stopAll } from "./harness.ts"

afterEach(stopAll)

const orders = actor("orders", {
  methods: {
    total: ({ n }: { n: number }) => {
      throw new RangeError(`order ${n} of "${"x".repeat(n)}" is <b>not</b> there\u202e`)
    },
    pay: () => {
      throw new Error("no card")
    },
  },
})

test("jobs that failed alike are one cause, which their records name", async () => {
  const transport = `memory://${generateId()}`
  const running = await start({ transport, actors: [] })
  const { ask } = running
  const worker = await startWorker([orders], { transport, version: "2.14.3", name: "w1" })
  const ids: Array<string> = []
  for (const n of [1, 22, 333]) ids.push(await finished(running, { task: "orders.total", input: { n } }))
  await finished(running, { task: "orders.pay" })
  await worker.stop()
  const { body } = await ask("GET", "/v1/errors?task=orders.total")
  expect(body.errors).toMatchObject([
    {
      name: "RangeError",
      template: "order <n> of <text> is <b>not</b> there\u202e",
      reason: "handler",
      tasks: ["orders.total"],
      count: 3,
      jobs: { failed: 3, retrying: 0, dead: 0 },
      status: "new",
      frame: expect.stringContaining("test/unit/runtime/http/errors.test.ts"),
      sample: [...ids].reverse(),
    },
  ])
  const [{ fingerprint }] = body.errors
  expect((await ask("GET", `/v1/jobs/${ids[0]}`)).body.fingerprint).toBe(fingerprint)
  const details = await ask("GET", `/v1/errors/${fingerprint}?range=24h`)
  expect(details.body).toMatchObject({
    ids: [...ids].reverse(),
    by: {
      version: [{ key: "2.14.3", count: 3 }],
      worker: [{ key: "w1", count: 3 }],
      attempt: [{ key: "1", count: 3 }],
      queue: [{ key: "default", count: 3 }],
    },
    traceback: expect.stringContaining("RangeError"),
  })
  const page = await ask("GET", "/v1/errors?limit=1")
  expect((await ask("GET", `/v1/errors?limit=1&cursor=${page.body.next}`)).body.errors.length).toBe(1)
  expect((await ask("GET", "/v1/errors?state=quiet")).body.errors).toEqual([])
})

test("what cannot be asked for is refused by the name of the parameter", async () => {
  const { ask } = await start({ actors: [] })
  const refused: ReadonlyArray<readonly [path: string, status: number, field: string | undefined]> = [
    ["/v1/errors?range=2d", 400, "range"],
    ["/v1/errors?range=1s", 400, "range"],
    ["/v1/errors?state=muted", 400, "state"],
    ["/v1/errors?sort=name", 400, "sort"],
    ["/v1/errors?cursor=ffffffff", 400, "cursor"],
    ["/v1/errors?limit=0", 400, "limit"],
    ["/v1/errors/ffffffff", 404, undefined],
    ["/v1/errors/%E2%80%AE", 404, undefined],
  ]
  for (const [path, status, field] of refused) {
    const answer = await ask("GET", path)
    expect([path, answer.status, answer.body.field]).toEqual([path, status, field])
  }
})
