/** Schedules over HTTP: each route, and the same refusals as over code. */

import type { ScheduleFields } from "callboard"
import { afterAll, beforeAll, expect, test } from "vitest"
import { badSchedules } from "../../../support/bad-schedules.ts"
import { eventually } from "../../../support/servers/process.ts"
import { type Running, start, stopAll } from "./harness.ts"

let running: Running
beforeAll(async () => {
  running = await start()
})
afterAll(stopAll)

const task = "work.echo"

test("create, list, show, change, pause, resume, run, delete", async () => {
  const { ask } = running
  const body = { name: "weekly", task, input: { n: 1 }, cron: "0 7 * * mon", timeZone: "Europe/Berlin" }
  const made = await ask("POST", "/v1/schedules", { body })
  const { name, ...fields } = body
  expect(made).toMatchObject({ status: 201, body: { name, state: "active", fields, runs: [] } })
  expect((await ask("POST", "/v1/schedules", { body })).body).toEqual(made.body)
  expect(await ask("POST", "/v1/schedules", { body: { ...body, priority: 1 } })).toMatchObject({
    status: 409,
    body: { code: "schedule-exists", field: "name" },
  })
  await ask("POST", "/v1/schedules", { body: { name: "later", task, every: "1 day" } })
  const page = await ask("GET", "/v1/schedules?limit=1")
  expect(page.body).toMatchObject({ schedules: [{ name: "later" }], next: "later" })
  expect((await ask("GET", "/v1/schedules?cursor=later")).body.schedules).toMatchObject([{ name: "weekly" }])
  expect((await ask("GET", "/v1/schedules?limit=0")).body).toMatchObject({ code: "invalid-input", field: "limit" })

  const changed = await ask("PATCH", "/v1/schedules/weekly", { body: { timeZone: null, priority: 9 } })
  expect(changed.body.fields).toEqual({ task, input: { n: 1 }, cron: "0 7 * * mon", priority: 9 })
  expect(changed.body.next).not.toBe(made.body.next)
  expect((await ask("POST", "/v1/schedules/weekly/pause")).body.state).toBe("paused")
  const posted = await ask("POST", "/v1/schedules/weekly/run")
  expect(posted.status).toBe(202)
  await eventually(async () => (await ask("GET", `/v1/jobs/${posted.body.id}`)).body.state === "succeeded")
  expect((await ask("GET", "/v1/schedules/weekly")).body).toMatchObject({
    state: "paused",
    runs: [{ id: posted.body.id, state: "succeeded" }],
  })
  expect((await ask("GET", "/v1/schedules/weekly")).body.upcoming).toEqual([])
  expect((await ask("POST", "/v1/schedules/weekly/resume")).body).toMatchObject({ state: "active" })
  const { next, upcoming } = (await ask("GET", "/v1/schedules/weekly")).body
  const week = 7 * 24 * 3_600_000
  expect(upcoming).toEqual([0, 1, 2, 3, 4].map((at) => new Date(Date.parse(next) + at * week).toISOString()))
  expect((await ask("DELETE", "/v1/schedules/weekly")).status).toBe(204)
})

test.each([
  ["GET", ""],
  ["PATCH", ""],
  ["POST", "/pause"],
  ["POST", "/resume"],
  ["POST", "/run"],
  ["DELETE", ""],
])("%s /v1/schedules/{id}%s of an unknown schedule", async (method, action) => {
  const options = method === "PATCH" ? { body: {} } : {}
  expect(await running.ask(method, `/v1/schedules/nobody${action}`, options)).toMatchObject({
    status: 404,
    body: { code: "not-found", detail: "there is no schedule nobody" },
  })
})

test.each(badSchedules)("$what", async ({ name = "bad", fields, code, field, message }) => {
  const { ask, service } = running
  const { schedules } = service.client
  const refusal = { code, message, details: { field } }
  // What comes from outside has no type; code is refused the same where it has none.
  const given: ScheduleFields = JSON.parse(JSON.stringify(fields))
  await expect(schedules.create(name, given)).rejects.toMatchObject(refusal)
  const answer = await ask("POST", "/v1/schedules", { body: { name, ...fields } })
  expect(answer).toMatchObject({ status: 400, body: { code, field, detail: message } })
  expect((await schedules.list()).schedules.map((each) => each.name)).not.toContain(name)
})

test("what is no object, is too large, or is no JSON is refused", async () => {
  const { ask, service } = running
  expect((await ask("POST", "/v1/schedules", { body: [] })).body).toMatchObject({
    code: "invalid-input",
    field: "name",
  })
  expect((await ask("PATCH", "/v1/schedules/later", { body: [] })).body).toMatchObject({ code: "invalid-input" })
  const large = { task, every: 60, input: "x".repeat(300_000) }
  await expect(service.client.schedules.create("large", large)).rejects.toMatchObject({ code: "too-large" })
  expect((await ask("POST", "/v1/schedules", { body: { name: "large", ...large } })).body).toMatchObject({
    code: "too-large",
  })
  // A letter may have several bytes.
  const letters = { task, every: 60, input: "€".repeat(100_000) }
  await expect(service.client.schedules.create("letters", letters)).rejects.toMatchObject({ code: "too-large" })
  const bytes = { task, every: 60, input: new Uint8Array(3) }
  await expect(service.client.schedules.create("bytes", bytes)).rejects.toMatchObject({
    code: "invalid-input",
    message: "input: contains a value that JSON cannot represent",
    details: { field: "input" },
  })
})

test("a field that does not exist is refused in a change, also where it is to be taken away", async () => {
  expect((await running.ask("PATCH", "/v1/schedules/later", { body: { catchup: null } })).body).toMatchObject({
    code: "unknown-field",
    field: "catchup",
    detail: "catchup is not an option of a schedule (did you mean catchUp?)",
  })
})

test("a change is refused as a new schedule is, and nothing changes; an unknown actor too", async () => {
  const { ask } = running
  const path = "/v1/schedules/later"
  const before = (await ask("GET", path)).body
  for (const { name, fields, code, message } of badSchedules) {
    if (name !== undefined || !("cron" in fields || fields["every"] !== undefined || "at" in fields)) continue
    if (fields["timeZone"] !== undefined && fields["cron"] === undefined) continue
    const answer = await ask("PATCH", path, { body: { cron: null, every: null, at: null, ...fields } })
    expect(answer.body).toMatchObject({ code, detail: message })
  }
  expect((await ask("GET", path)).body).toEqual(before)
  expect((await ask("POST", "/v1/schedules", { body: { name: "x", task: "nobody", every: 60 } })).body).toMatchObject({
    code: "unknown-actor",
  })
})
