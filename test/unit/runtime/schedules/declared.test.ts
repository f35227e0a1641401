/** Schedules that methods declare: what becomes of one whose declaration changes. */
import { connect } from "callboard"
import { expect, onTestFinished, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { makeLog } from "../../../../runtime/log/log.ts"
import { declareAll } from "../../../../runtime/schedules/declared.ts"
import { SCHEDULES } from "../../../../runtime/schedules/entry.ts"
import type { ScheduleDeclaration } from "../../../../runtime/schedules/fields.ts"

const NOW = Date.parse("2026-01-01T06:59:00Z")
const MINUTE = 60_000

const declaring = async () => {
  const client = await connect(`memory://${generateId()}`)
  onTestFinished(() => client.close())
  const { store } = client.connection
  return async (declaration: ScheduleDeclaration, now: number) => {
    const declared = new Map([["clock", new Map([["tick", declaration]])]])
    await declareAll(store, declared, new Set(), now, makeLog({ level: "none" }))
    return (await SCHEDULES.get(store, "clock.tick"))?.value
  }
}

test("a change that leaves the times alone loses no due time that no worker has posted yet", async () => {
  const declare = await declaring()
  const made = await declare({ cron: "0 7 * * *" }, NOW)
  expect(made?.due).toBe(NOW + MINUTE)
  const changed = await declare({ cron: "0 7 * * *", input: { n: 1 }, overlap: "skip" }, NOW + 2 * MINUTE)
  expect(changed).toMatchObject({ due: NOW + MINUTE, wake: NOW + MINUTE, rules: { overlap: "skip" } })
  expect(changed?.fields.input).toEqual({ n: 1 })
})

test("nor does it begin an interval again; another interval begins now", async () => {
  const declare = await declaring()
  await declare({ every: "1 day" }, NOW)
  const changed = await declare({ every: "1 day", input: { n: 1 } }, NOW + MINUTE)
  expect(changed?.rules.timing).toEqual({ kind: "every", everyMs: 86_400_000, anchor: NOW })
  expect((await declare({ every: "2 days" }, NOW + MINUTE))?.due).toBe(NOW + MINUTE)
})
