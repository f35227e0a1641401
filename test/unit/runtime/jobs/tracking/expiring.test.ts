import { connect } from "callboard"
import { virtualClock } from "callboard/testing"
import { Result } from "effect"
import { expect, test } from "vitest"
import { plan } from "../../../../../runtime/client/submitting/plan.ts"
import { POLL_MS, REPORT_DELAY_MS, waitForEnd } from "../../../../../runtime/jobs/tracking/finding.ts"
import { withOwnJobs } from "./board.ts"

test.each<[who: string, fields: { readonly id?: string; readonly expires?: number; readonly ttl?: number }, s: number]>(
  [
    ["that submitted it", { expires: 1 }, 1],
    ["that submitted it, by its time to wait", { ttl: 1 }, 1],
    ["that knows its id", { id: "known", expires: 1 }, 1],
    ["that has looked before", { id: "later", expires: 7 }, 7],
  ],
)("a job that nothing serves: a caller %s and waits learns of its end once it has expired", async (_, fields, s) => {
  using clock = virtualClock()
  await using client = await connect("memory:")
  const began = clock.now
  const submitted = await client.submit("nobody.serves", fields)
  const job = fields.id === undefined ? submitted : client.job(fields.id)
  expect(await clock.until(job.outcome())).toEqual({ state: "expired" })
  expect(clock.now - began).toBe(s * 1_000 + REPORT_DELAY_MS)
})

test("a job that is not over by the transport's clock is looked at once more for its expiry, and then as often as others", async () => {
  using clock = virtualClock()
  await using client = await connect("memory:")
  const { connection } = client
  const { id } = await client.submit("nobody.serves", { expires: 1 })
  const read: Array<number> = []
  const began = clock.now
  const slow = {
    ...withOwnJobs(connection, {
      find: (given) => {
        read.push(clock.now - began)
        return connection.jobs.find(given)
      },
    }),
    store: { ...connection.store, now: async () => began },
  }
  await expect(clock.until(waitForEnd(slow, id, 14_000))).rejects.toMatchObject({ _tag: "WaitTimeout" })
  const expired = 1_000 + REPORT_DELAY_MS
  expect(read).toEqual([0, expired, expired + POLL_MS, expired + 2 * POLL_MS])
})

test("a job that was only promised when the wait began is looked for again, and then when it expires", async () => {
  using clock = virtualClock()
  await using client = await connect("memory:")
  const began = clock.now
  await client.submit("nobody.serves", { callbacks: [{ task: "nobody.serves", id: "promised" }] })
  const deaf = withOwnJobs(client.connection, { watch: async () => undefined })
  const end = waitForEnd(deaf, "promised", 60_000)
  await clock.advance(1)
  // The callback comes, as its parent's worker posts it.
  const context = { now: clock.now, origin: "test", defaults: { queue: "default" }, id: "promised" }
  await client.connection.jobs.publish([Result.getOrThrow(plan({ task: "nobody.serves", expires: 10 }, context))])
  expect(await clock.until(end)).toMatchObject({ state: "expired" })
  expect(clock.now - began).toBe(11_000 + REPORT_DELAY_MS)
})
