/** Job boards over HTTP: every answer is checked against the published document. */
import { TransportError } from "callboard/transport"
import { afterEach, describe, expect, test } from "vitest"
import { eventually } from "../../../support/servers/process.ts"
import { start, stopAll } from "./harness.ts"

afterEach(stopAll)

const at = "/v1/boards/builds"

const begin = async () => {
  const running = await start({ actors: [] })
  const post = async (name: string, fields: object = {}) =>
    (await running.ask("POST", `${at}/jobs`, { body: { name, ...fields } })).body
  const tell = (method: string, path: string, body?: object) =>
    running.ask(method, `${at}${path}`, body === undefined ? {} : { body })
  return { ...running, post, tell }
}

test("a job that is too large is no array", async () => {
  const { tell } = await begin()
  const { status, body } = await tell("POST", "/jobs", { name: "a", details: { text: "x".repeat(3 << 20) } })
  expect(status).toBe(413)
  expect(body).toMatchObject({ code: "too-large", detail: expect.stringMatching(/^the body has more than \d+ bytes/) })
})

test("a job is posted, listed, claimed, extended and consumed", async () => {
  const { post, tell } = await begin()
  const job = await post("a", { details: { n: 1 }, priority: "low", book: { name: "b", uuid: "u" } })
  expect(job).toMatchObject({ name: "a", priority: "LOW", state: "UNCLAIMED", owner: null, details: { n: 1 } })
  const second = await post("b")
  expect((await tell("GET", "/jobs")).body.jobs.map(({ name }: { name: string }) => name)).toEqual(["b", "a"])
  expect((await tell("GET", "/count")).body).toEqual({ count: 2 })
  const taken = await tell("POST", "/claim", { owner: "me" })
  expect(taken.body).toMatchObject({ id: second.id, state: "CLAIMED", owner: "me", claim: 1, lastOwner: null })
  expect(taken.body.expiresIn).toBeGreaterThan(50)
  expect((await tell("GET", "/jobs?unclaimed=true")).body.jobs).toMatchObject([{ id: job.id }])
  expect((await tell("POST", `/jobs/${second.id}/extend`, { expiry: "5m" })).body).toEqual({ extended: true })
  expect((await tell("GET", `/jobs/${second.id}`)).body.expiresIn).toBeGreaterThan(290)
  expect((await tell("POST", `/jobs/${job.id}/extend`, { expiry: 5 })).body).toEqual({ extended: false })
  expect((await tell("GET", `/jobs/${second.id}/complete`)).body).toEqual({ complete: false })
  for (const id of ["nope", crypto.randomUUID()])
    expect((await tell("GET", `/jobs/${id}/complete?wait=30s`)).body).toMatchObject({ status: 404, code: "not-found" })
  const waiting = tell("GET", `/jobs/${second.id}/complete?wait=30s`)
  const consumed = await tell("POST", `/jobs/${second.id}/consume`, { owner: "me", claim: 1 })
  expect(consumed.body).toMatchObject({ state: "COMPLETE", story: [{ step: "posted" }, {}, { step: "consumed" }] })
  expect((await waiting).body).toEqual({ complete: true })
  expect(await tell("GET", `/jobs/${second.id}`)).toMatchObject({ status: 404, body: { code: "not-found" } })
  const claimed = await tell("POST", `/jobs/${job.id}/claim`, { owner: "me", expiry: null })
  expect(claimed.body).toMatchObject({ expiresIn: "DOES_NOT_EXPIRE" })
  expect((await tell("POST", `/jobs/${job.id}/abandon`, { owner: "me" })).body).toMatchObject({ state: "UNCLAIMED" })
  await tell("POST", `/jobs/${job.id}/claim`, { owner: "me" })
  expect((await tell("POST", `/jobs/${job.id}/trash`, { owner: "me" })).status).toBe(200)
  expect((await tell("GET", "/trash")).body.jobs).toMatchObject([{ id: job.id, lastOwner: "me" }])
  expect((await tell("GET", `/trash/${job.id}`)).body).toMatchObject({ details: { n: 1 } })
  expect((await tell("POST", `/trash/${job.id}/restore`)).body).toMatchObject({ id: job.id, state: "UNCLAIMED" })
  expect((await tell("GET", "/entities")).body).toEqual({ entities: [] })
})

test("a claim waits for a job, and one whose client has gone takes none", async () => {
  const { post, tell, ask } = await begin()
  const waiting = tell("POST", "/claim?wait=30s", { owner: "me" })
  await post("a")
  expect((await waiting).body).toMatchObject({ name: "a", owner: "me" })
  expect(await tell("POST", "/claim?wait=100ms", { owner: "me" })).toMatchObject({
    status: 404,
    body: { code: "not-found", detail: "no job of board builds can be claimed: waited 0.1 s" },
  })
  const gone = new AbortController()
  const given = ask("POST", `${at}/claim?wait=30s`, { body: { owner: "gone" }, signal: gone.signal })
  setTimeout(() => gone.abort(), 100)
  await expect(given).rejects.toThrow()
  // Nothing tells when the service has learned that the client has gone.
  await new Promise((resolve) => setTimeout(resolve, 500))
  const job = await post("b")
  expect((await tell("POST", "/claim?wait=10s", { owner: "other" })).body).toMatchObject({ id: job.id, owner: "other" })
  expect((await tell("GET", "/jobs?wait=1s")).body.jobs).toHaveLength(2)
  const none = await ask("GET", "/v1/boards/other/jobs?wait=100ms")
  expect(none).toMatchObject({ status: 404, body: { code: "not-found" } })
})

test("requests that wait are answered when the service stops", async () => {
  const { service, faults, post, tell, ask } = await begin()
  const { id } = await post("a")
  const looks = () => (faults.calls.get("store.get") ?? 0) + (faults.calls.get("store.list") ?? 0)
  const before = looks()
  const waiting = [tell("GET", `/jobs/${id}/complete?wait=30s`), ask("GET", "/v1/boards/other/jobs?wait=30s")]
  await eventually(() => looks() >= before + 4, { message: "they look" })
  await service.stop()
  const answers = await Promise.all(waiting)
  expect(answers[0]).toMatchObject({ status: 200, body: { complete: false } })
  expect(answers[1]).toMatchObject({ status: 404, body: { detail: "the wait for a job of board other was cancelled" } })
})

test("a job that was posted is answered for, also where it cannot be read just then", async () => {
  const { faults, post, tell } = await begin()
  await post("first")
  let isWritten = false
  faults.after = (call) => {
    if (call === "store.write") isWritten = true
  }
  faults.before = (call) => {
    if (call === "store.get" && isWritten) throw new TransportError("unavailable", "the cable is cut")
  }
  const fields = { details: { n: 1 }, priority: "LOW", book: { name: "b", uuid: "u" } }
  const { status, body } = await tell("POST", "/jobs", { name: "a", details: { n: 1 } })
  expect(status).toBe(201)
  faults.heal()
  expect((await tell("GET", `/jobs/${body.id}`)).body).toEqual(body)
  const low = await post("b", fields)
  expect((await tell("GET", `/jobs/${low.id}`)).body).toEqual(low)
})

test("a long list comes in pages", async () => {
  const { service, tell } = await begin()
  const board = service.client.board("builds")
  for (let from = 0; from < 300; from += 50)
    await Promise.all(
      Array.from({ length: 50 }, (_, i) => board.post(`${from + i}`, i % 7 === 0 ? { priority: "HIGH" } : {})),
    )
  const all = (await tell("GET", "/jobs?limit=1000")).body
  expect(all.jobs).toHaveLength(300)
  expect(all).not.toHaveProperty("next")
  const paged: Array<string> = []
  for (let cursor = ""; ; ) {
    const { jobs, next } = (await tell("GET", `/jobs?limit=70${cursor}`)).body
    paged.push(...jobs.map(({ id }: { id: string }) => id))
    if (next === undefined) break
    cursor = `&cursor=${next}`
  }
  expect(paged).toEqual(all.jobs.map(({ id }: { id: string }) => id))
})

test("what happens to a board is streamed", async () => {
  const { url, post, tell } = await begin()
  const stop = new AbortController()
  const response = await fetch(`${url}${at}/events`, { signal: stop.signal })
  let text = ""
  const reading = (async () => {
    const decoder = new TextDecoder()
    for await (const chunk of response.body ?? []) text += decoder.decode(chunk)
  })().catch(() => undefined)
  await eventually(() => text.includes("retry"), { message: "the stream begins" })
  const job = await post("a")
  await tell("POST", `/jobs/${job.id}/claim`, { owner: "me" })
  await tell("POST", `/jobs/${job.id}/consume`, { owner: "me" })
  await eventually(() => text.includes("REMOVAL"), { message: "both are told" })
  stop.abort()
  await reading
  expect([...text.matchAll(/^event: (.*)$/gm)].map(([, name]) => name)).toEqual(["POSTED", "REMOVAL"])
  expect(text).toContain(`"id":"${job.id}"`)
})

test("a board that is waited on stays open, however many others are asked for", async () => {
  const { url, faults, post, tell, ask } = await begin()
  const stop = new AbortController()
  const response = await fetch(`${url}${at}/events`, { signal: stop.signal })
  let text = ""
  const reading = (async () => {
    const decoder = new TextDecoder()
    for await (const chunk of response.body ?? []) text += decoder.decode(chunk)
  })().catch(() => undefined)
  await eventually(() => text.includes("retry"), { message: "the stream begins" })
  const looks = faults.calls.get("store.get") ?? 0
  const claiming = ask("POST", "/v1/boards/waited/claim?wait=60s", { body: { owner: "me" } })
  await eventually(() => (faults.calls.get("store.get") ?? 0) > looks, { message: "it looks" })
  for (let from = 0; from < 1_020; from += 20)
    await Promise.all(Array.from({ length: 20 }, (_, i) => fetch(`${url}/v1/boards/b${from + i}/count`)))
  await ask("POST", "/v1/boards/waited/jobs", { body: { name: "b" } })
  expect(await claiming).toMatchObject({ status: 200, body: { name: "b" } })
  const { id } = await post("a")
  await eventually(() => text.includes(`"id":"${id}"`), { message: "it is told" })
  expect((await tell("GET", "/count")).body).toEqual({ count: 1 })
  stop.abort()
  await reading
})

describe("bad input has the codes and messages that code has", () => {
  const unknown = "01a1faa7-32a8-772e-8df9-81ca40f8a698-2-0-0"
  const table: ReadonlyArray<readonly [string, string, object | string, number, object]> = [
    ["POST", "/jobs", {}, 400, { code: "invalid-input", field: "name" }],
    ["POST", "/jobs", { name: "" }, 400, { code: "invalid-input", field: "name" }],
    ["POST", "/jobs", { name: "a", priority: "urgent" }, 400, { code: "invalid-input", field: "priority" }],
    ["POST", "/jobs", { name: "a", details: [] }, 400, { code: "invalid-input", field: "details" }],
    ["POST", "/jobs", { name: "a", colour: "red" }, 400, { code: "unknown-field", field: "colour" }],
    ["POST", "/jobs", "{", 400, { code: "invalid-json" }],
    ["POST", "/jobs", [], 400, { code: "invalid-input", detail: "job: must be an object" }],
    ["POST", "/jobs/held/consume", { owner: "me", claim: 2.5 }, 400, { code: "invalid-input", field: "claim" }],
    ["POST", "/jobs/held/consume", { owner: "me", claim: 0 }, 400, { code: "invalid-input", field: "claim" }],
    ["POST", "/claim", { owner: "" }, 400, { code: "invalid-input", field: "owner" }],
    ["POST", "/claim", { owner: 7 }, 400, { code: "invalid-input", field: "owner" }],
    ["POST", "/claim", {}, 400, { code: "invalid-input", field: "owner" }],
    ["POST", "/claim", { owner: "me", expiry: 0 }, 400, { code: "invalid-input", field: "expiry" }],
    ["POST", "/claim", { owner: "me", expiry: -1 }, 400, { code: "invalid-input", field: "expiry" }],
    ["POST", "/claim?wait=2m", { owner: "me" }, 400, { code: "invalid-input", field: "wait" }],
    ["POST", "/claim", { owner: "me" }, 404, { code: "not-found" }],
    ["POST", `/jobs/${unknown}/claim`, { owner: "me" }, 404, { code: "not-found" }],
    ["POST", `/jobs/${unknown}/consume`, { owner: "me" }, 404, { code: "not-found" }],
    ["POST", `/jobs/${unknown}/abandon`, { owner: "" }, 400, { code: "invalid-input", field: "owner" }],
    ["POST", `/jobs/${unknown}/trash`, { owner: "me" }, 404, { code: "not-found" }],
    ["POST", `/trash/${unknown}/restore`, {}, 404, { code: "not-found" }],
    ["POST", "/jobs/free/consume", { owner: "me" }, 404, { code: "not-found" }],
    ["POST", "/jobs/held/claim", { owner: "other" }, 409, { code: "unclaimable" }],
    ["POST", "/jobs/held/consume", { owner: "other" }, 409, { code: "not-owner" }],
    ["POST", "/jobs/held/extend", { expiry: 5, owner: "other" }, 409, { code: "not-owner" }],
    ["POST", "/jobs/held/extend", { expiry: 5, claim: -1 }, 400, { code: "invalid-input", field: "claim" }],
    ["POST", "/jobs/held/extend", { expiry: 0 }, 400, { code: "invalid-input", field: "expiry" }],
  ]
  test.each(table)("%s %s %j", async (method, path, body, status, problem) => {
    const { ask, service } = await begin()
    const board = service.client.board("builds")
    // Of a priority of its own, so that there is nothing to claim beside it.
    const held = await board.post("held")
    await board.claim(held, "me", { expiry: null })
    const free = path.includes("free") ? await board.post("free") : held
    const filled = `${at}${path}`.replace("/held/", `/${held.id}/`).replace("/free/", `/${free.id}/`)
    const answer = await ask(method, filled, { body })
    expect(answer).toMatchObject({ status, body: problem })
    const code = await inCode(board, path, body, { held: held.id, free: free.id })
    if (code !== undefined) expect([answer.body.code, answer.body.detail]).toEqual([code.code, code.message])
  })

  type Body = { readonly owner: string; readonly expiry?: number; readonly name: string; readonly claim?: number }
  type Refused = { readonly code: string; readonly message: string }

  /** What the same call in code is refused with; `undefined` for what only HTTP can be given. */
  const inCode = async (
    board: ReturnType<Awaited<ReturnType<typeof start>>["service"]["client"]["board"]>,
    path: string,
    body: object | string,
    ids: Readonly<Record<string, string>>,
  ): Promise<Refused | undefined> => {
    if (typeof body === "string" || path.includes("?")) return undefined
    const { owner, expiry, name, claim, ...rest } = body as Body
    if (path === "/jobs") return name === undefined ? undefined : refused(board.post(name, rest))
    if (typeof owner !== "string" && !path.endsWith("extend")) return undefined
    const given = expiry === undefined ? {} : { expiry }
    const held = claim === undefined ? {} : { claim }
    if (path === "/claim") return refused(board.take(owner, given))
    const [, , name_ = "", call] = path.split("/")
    const id = ids[name_] ?? name_
    switch (call) {
      case "claim":
        return refused(board.claim(id, owner, given))
      case "consume":
      case "abandon":
      case "trash":
        return refused(board[call](id, owner, held))
      case "extend":
        return refused(board.extendExpiry(id, expiry ?? 1, { ...held, ...(owner === undefined ? {} : { owner }) }))
      default:
        return refused(board.restore(id))
    }
  }
  const refused = (call: Promise<unknown>): Promise<Refused> =>
    call.then(
      () => expect.unreachable("it was not refused"),
      (error: Refused) => error,
    )

  test("a board by a name that is none", async () => {
    const { ask } = await begin()
    expect(await ask("GET", "/v1/boards/a%2Fb/count")).toMatchObject({
      status: 400,
      body: { code: "invalid-input", field: "board" },
    })
  })

  test("a body larger than the transport takes is refused, and nothing is posted", async () => {
    const running = await start({ actors: [], maxBody: 1_000 })
    const body = { name: "a", details: { text: "x".repeat(1_000) } }
    expect(await running.ask("POST", `${at}/jobs`, { body })).toMatchObject({
      status: 413,
      body: {
        code: "too-large",
        detail: "the body has more than 1000 bytes: store large data elsewhere and send its address",
      },
    })
    expect((await running.ask("GET", `${at}/count`)).body).toEqual({ count: 0 })
  })
})
