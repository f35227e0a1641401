import { expect, test } from "vitest"
import type { Driver } from "../../../../../runtime/transport/driver.ts"
import { lift } from "../../../../../runtime/transport/lift/lift.ts"
import { LeastBoard } from "../../../../kit/driver/least-driver.ts"
import { wholeDriver } from "../../../../kit/driver/whole-driver.ts"
import { posting } from "./samples.ts"

test("a record that cannot be read does not hide the others of a list", async () => {
  const driver: Driver = wholeDriver(new LeastBoard(), { lease: 60_000 })
  const { jobs } = lift(driver, { lease: 60_000 })
  const [published] = await jobs.publish([posting()])
  expect(published).toMatchObject({ status: "stored" })
  for (const [id, text] of [
    ["garbled", '{"v":1,"id":'],
    ["newer", '{"v":99,"id":"newer"}'],
  ] as const) {
    const index = { state: "failed", queue: "q", task: "text", at: Date.now() } as const
    const [stored] = await driver.commit([{ id, record: { expect: "", bytes: new TextEncoder().encode(text), index } }])
    expect(stored).toMatchObject({ status: "committed" })
  }
  expect((await jobs.list({ limit: 10 })).records.map(({ id }) => id)).toEqual([posting().id])
  await expect(jobs.find("garbled")).rejects.toMatchObject({ reason: "internal" })
  await expect(jobs.find("newer")).rejects.toMatchObject({ reason: "unsupported" })
})
