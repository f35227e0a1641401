/** Why a job waits, over HTTP. */
import { TransportError } from "callboard/transport"
import { afterEach, expect, test } from "vitest"
import { finished, start, stopAll } from "./harness.ts"

afterEach(stopAll)

const codes = (body: { readonly causes: ReadonlyArray<{ readonly code: string }> }) =>
  body.causes.map(({ code }) => code)

test("the true cause first; unknown is 404, what is not kept is 410", async () => {
  const running = await start()
  const { ask, submit, service } = running
  await service.client.pause("default")
  const { body } = await submit({ task: "work.echo" })
  const why = await ask("GET", `/v1/jobs/${body.id}/why`)
  expect(why).toMatchObject({ status: 200, body: { id: body.id, state: "queued" } })
  expect(codes(why.body)).toEqual(["queue-paused"])
  await service.client.resume("default")
  const id = await finished(running, { task: "work.echo" })
  expect((await ask("GET", `/v1/jobs/${id}/why`)).body.causes).toMatchObject([{ code: "ended", state: "succeeded" }])
  expect((await ask("GET", "/v1/jobs/nobody/why")).status).toBe(404)
  await service.client.job(id).delete()
  expect((await ask("GET", `/v1/jobs/${id}/why`)).status).toBe(410)
})

test("while the transport is away that is the cause; while a part of it is, the rest is told", async () => {
  const { ask, submit, faults } = await start({ actors: [] })
  const { body } = await submit({ task: "work.echo" })
  const path = `/v1/jobs/${body.id}/why`
  faults.status("disconnected")
  expect(await ask("GET", path)).toMatchObject({ status: 200, body: { id: body.id } })
  expect(codes((await ask("GET", path)).body)).toEqual(["transport-down"])
  faults.status("connected")
  expect(codes((await ask("GET", path)).body)).toEqual(["no-worker"])
  faults.before = (call) => {
    if (call.startsWith("store.")) throw new TransportError("unavailable", "cut off")
  }
  expect(codes((await ask("GET", path)).body)).toEqual(["unclear"])
  faults.before = (call) => (call.startsWith("store.") ? faults.hang() : undefined)
  expect(codes((await ask("GET", path)).body)).toEqual(["unclear"])
  faults.before = () => {
    throw new TransportError("unavailable", "cut off")
  }
  expect((await ask("GET", path)).body.causes).toMatchObject([{ code: "transport-down", reason: "cut off" }])
})
