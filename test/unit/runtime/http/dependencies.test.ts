/** Jobs that wait for jobs, over HTTP. */
import { afterEach, describe, expect, test } from "vitest"
import { routes } from "../../../../runtime/http/app.ts"
import { openApiOf } from "../../../../runtime/http/openapi.ts"
import { EDGE_PREFIX } from "../../../../runtime/jobs/dependencies/edges.ts"
import { type Running, start, stopAll } from "./harness.ts"
import { eventsOf } from "./sse.ts"

afterEach(stopAll)

const edgesOf = async ({ service }: Running): Promise<number> =>
  (await service.client.connection.store.list({ prefix: EDGE_PREFIX, limit: 1_000 })).length

/** Starts a service without actors, so that all jobs wait, and submits a job `p`. */
const withParent = async () => {
  const running = await start({ actors: [] })
  const { ask, submit } = running
  await submit({ task: "work.echo", id: "p" })
  const stateOf = async (id: string): Promise<string> => {
    const { status, body } = await ask("GET", `/v1/jobs/${id}`)
    return status === 410 ? "gone" : body.state
  }
  return { ...running, stateOf }
}

describe("a task with after", () => {
  test.each([
    ["an id", "p"],
    ["a list of ids", ["p", "q", "p"]],
    ["ids and what will do", { ids: ["p", "q"], allowFailure: true }],
    ["an id and what will do", { ids: "p", allowFailure: false }],
  ])("is accepted as deferred: %s", async (_form, after) => {
    const { ask, submit } = await withParent()
    await submit({ task: "work.echo", id: "q" })
    const { status, headers, body } = await submit({ task: "work.echo", id: "child", after })
    expect(status).toBe(202)
    expect(body).toEqual({ id: "child", state: "deferred", href: "/v1/jobs/child", durability: "none" })
    expect(headers.get("location")).toBe("/v1/jobs/child")
    const ids = Array.isArray(after) || (typeof after === "object" && Array.isArray(after.ids)) ? ["p", "q"] : ["p"]
    const lenient = typeof after === "object" && "allowFailure" in after && after.allowFailure
    const record = await ask("GET", "/v1/jobs/child")
    expect(record.body).toMatchObject({ state: "deferred", celeryState: "PENDING", attempts: 0 })
    expect(record.body.after).toEqual({ ids, waiting: ids, ...(lenient ? { allowFailure: true } : {}) })
  })

  test("starts when what it waits for has succeeded, and its record says for whom it waited", async () => {
    const running = await start()
    const parent = (await running.submit({ task: "work.hold" })).body
    const child = (await running.submit({ task: "work.echo", input: { n: 1 }, after: parent.id })).body
    const result = await running.ask("GET", `${child.href}/result`)
    expect(result).toMatchObject({ status: 202, body: { id: child.id, state: "deferred" } })
    expect(result.headers.get("retry-after")).toBe("1")
    const waiting = running.ask("GET", `${child.href}/result?wait=10s`)
    running.release()
    expect(await waiting).toMatchObject({ status: 200, body: { state: "succeeded", result: { n: 1 } } })
    const { body } = await running.ask("GET", child.href)
    expect(body.after).toEqual({ ids: [parent.id] })
    expect(body.transitions.map(({ state }: { readonly state: string }) => state)).toEqual([
      ...["deferred", "queued", "started", "succeeded"],
    ])
  })

  test.each([
    ["an unknown job", "nobody", /there is no job nobody/],
    ["one of several that is unknown", ["p", "nobody"], /there is no job nobody/],
    ["itself", "child", /cannot wait for itself/],
    ["nobody", [], /after/],
    ["nobody, in words", { ids: [] }, /after/],
    ["more than a thousand", Array.from({ length: 1_001 }, (_, at) => `p${at}`), /after/],
    ["a number", 7, /after/],
    ["null", null, /after/],
    ["a list of something else", ["p", 7], /after/],
    ["no ids", { allowFailure: true }, /after/],
    ["words for yes", { ids: ["p"], allowFailure: "yes" }, /after/],
    ["a field that there is not", { ids: ["p"], allowCancel: true }, /after/],
    ["an empty id", "", /job id/],
    ["an id that is too long", "x".repeat(256), /job id/],
    ["half a character", "\ud800", /job id/],
  ])("is refused, naming the field: %s", async (_what, after, detail) => {
    const running = await withParent()
    const { status, body } = await running.submit({ task: "work.echo", id: "child", after })
    expect(status).toBe(400)
    expect(["invalid-input", "unknown-field"]).toContain(body.code)
    expect(body.field).toMatch(/^after/)
    expect(body.detail).toMatch(detail)
    expect(body.detail.length).toBeLessThan(300)
    expect((await running.ask("GET", "/v1/jobs")).body.jobs.map(({ id }: { readonly id: string }) => id)).toEqual(["p"])
    expect(await edgesOf(running)).toBe(0)
  })

  test("after a thousand others is accepted", async () => {
    const { submit, ask } = await withParent()
    const ids = Array.from({ length: 1_000 }, (_, at) => `p${at}`)
    await submit(ids.map((id) => ({ task: "work.echo", id })))
    expect(await submit({ task: "work.echo", id: "child", after: ids })).toMatchObject({ status: 202 })
    expect((await ask("GET", "/v1/jobs/child")).body.after.waiting).toHaveLength(1_000)
  })

  test("too large for the transport is refused at once, not when it is released", async () => {
    const running = await withParent()
    const { maxTask } = running.service.client.connection.transport.capabilities
    const meta = { text: "x".repeat(maxTask) }
    const refused = await running.submit({ task: "work.echo", id: "child", after: "p", meta })
    expect(refused).toMatchObject({ status: 413, body: { code: "too-large" } })
    expect(await edgesOf(running)).toBe(0)
  })
})

describe("in an array", () => {
  test("those that others wait for come first; each has its own receipt", async () => {
    const { submit } = await withParent()
    const { status, body } = await submit([
      { task: "work.echo", id: "a", after: "p" },
      { task: "work.echo", id: "b" },
      { task: "work.echo", id: "c", after: ["a", "b"] },
    ])
    expect(status).toBe(202)
    expect(body).toMatchObject([
      { id: "a", state: "deferred" },
      { id: "b", state: "queued" },
      { id: "c", state: "deferred" },
    ])
  })

  test("one that waits for a later one refuses all, with its index", async () => {
    const running = await withParent()
    const { status, body } = await running.submit([
      { task: "work.echo", id: "a" },
      { task: "work.echo", id: "b", after: "c" },
      { task: "work.echo", id: "c" },
    ])
    expect(status).toBe(400)
    expect(body).toMatchObject({ code: "invalid-input", field: "after", index: 1 })
    expect(body.detail).toMatch(/job c comes later/)
    expect((await running.ask("GET", "/v1/jobs")).body.jobs).toHaveLength(1)
  })

  test("one that waits for a job that nobody knows is refused alone, with those that wait for it", async () => {
    const { submit } = await withParent()
    const { status, body } = await submit([
      { task: "work.echo", id: "a", after: "nobody" },
      { task: "work.echo", id: "b", after: "p" },
      { task: "work.echo", id: "c", after: ["p", "a"] },
    ])
    expect(status).toBe(202)
    expect(body).toMatchObject([
      { index: 0, id: "a", status: 400, code: "invalid-input", field: "after" },
      { id: "b", state: "deferred" },
      { index: 2, id: "c", status: 400, code: "invalid-input", field: "after" },
    ])
  })
})

describe("decisions", () => {
  test("cancel leaves those that wait deferred; release=true lets them go, also later", async () => {
    const { ask, submit, stateOf } = await withParent()
    await submit({ task: "work.echo", id: "child", after: "p" })
    expect(await ask("POST", "/v1/jobs/p/cancel")).toMatchObject({ status: 200, body: { state: "cancelled" } })
    expect(await stateOf("child")).toBe("deferred")
    expect(await ask("POST", "/v1/jobs/p/cancel")).toMatchObject({ status: 409, body: { code: "already-terminal" } })
    expect(await ask("POST", "/v1/jobs/p/cancel?release=true")).toMatchObject({ status: 200 })
    expect(await stateOf("child")).toBe("queued")
    const wrong = await ask("POST", "/v1/jobs/p/cancel?release=yes")
    expect(wrong).toMatchObject({ status: 400, body: { code: "invalid-input", field: "release" } })
  })

  test("delete fails those that wait, or lets them start; dependents=true forgets them too", async () => {
    const running = await withParent()
    const { ask, submit, stateOf } = running
    await submit({ task: "work.echo", id: "strict", after: "p" })
    await submit({ task: "work.echo", id: "lenient", after: { ids: "p", allowFailure: true } })
    expect((await ask("DELETE", "/v1/jobs/p")).status).toBe(204)
    expect([await stateOf("strict"), await stateOf("lenient")]).toEqual(["failed", "queued"])
    expect((await ask("GET", "/v1/jobs/strict")).body).toMatchObject({ dead: "dependency-gone" })

    await submit({ task: "work.echo", id: "q" })
    await submit({ task: "work.echo", id: "a", after: "q" })
    await submit({ task: "work.echo", id: "b", after: "a" })
    expect((await ask("DELETE", "/v1/jobs/q?dependents=true")).status).toBe(204)
    expect([await stateOf("q"), await stateOf("a"), await stateOf("b")]).toEqual(["gone", "gone", "gone"])
    expect(await edgesOf(running)).toBe(0)
    expect(await ask("DELETE", "/v1/jobs/q?dependents=true")).toMatchObject({ status: 410 })
  })

  test("retry of one that waits is refused; cancelled, it runs at once", async () => {
    const { ask, submit, stateOf } = await withParent()
    await submit({ task: "work.echo", id: "child", after: "p" })
    expect(await ask("POST", "/v1/jobs/child/retry")).toMatchObject({ status: 409, body: { code: "job-exists" } })
    await ask("POST", "/v1/jobs/child/cancel")
    expect(await ask("POST", "/v1/jobs/child/retry")).toMatchObject({ status: 200, body: { run: 2 } })
    expect(await stateOf("child")).toBe("queued")
  })
})

test("lists tell those that wait, and for whom", async () => {
  const { ask, submit } = await withParent()
  await submit({ task: "work.echo", id: "child", after: "p" })
  await submit({ task: "work.echo", id: "other" })
  const { body } = await ask("GET", "/v1/jobs?state=deferred")
  expect(body.jobs).toMatchObject([{ id: "child", state: "deferred", after: { ids: ["p"], waiting: ["p"] } }])
  expect((await ask("POST", "/v1/jobs/cancel?state=deferred")).body).toMatchObject({ changed: 1, refused: [] })
  expect((await ask("GET", "/v1/jobs?state=deferred")).body.jobs).toEqual([])
})

test("why says for whom it waits, how they stand, and what can be done", async () => {
  const { ask, submit } = await withParent()
  await submit({ task: "work.echo", id: "q" })
  await submit({ task: "work.echo", id: "child", after: ["p", "q"] })
  await ask("POST", "/v1/jobs/p/cancel")
  const { status, body } = await ask("GET", "/v1/jobs/child/why")
  expect(status).toBe(200)
  expect(body.causes[0]).toMatchObject({
    code: "waiting-for-jobs",
    jobs: 2,
    waiting: [
      { id: "p", state: "cancelled" },
      { id: "q", state: "queued" },
    ],
  })
  expect(body.causes[0].message).toBe(
    "waiting for 2 other jobs to succeed: p (cancelled), q (queued); p will not succeed unless it runs again: callboard retry p; or to start child without it: callboard cancel p --release",
  )
})

describe("Idempotency-Key", () => {
  const KEY = { "idempotency-key": "order-1" }

  test("the same again is the same job, and what it was answered", async () => {
    const { submit, ask } = await withParent()
    const task = { task: "work.echo", after: "p" }
    const first = await submit(task, KEY)
    expect(first.body.state).toBe("deferred")
    expect(await submit(task, KEY)).toMatchObject({ status: 202, body: { ...first.body, duplicate: true } })
    expect((await ask("GET", "/v1/jobs?state=deferred")).body.jobs).toHaveLength(1)
    expect(await submit({ ...task, after: ["p"] }, KEY)).toMatchObject({ status: 422 })
  })

  test("what nobody knew then may be there now: the same again is accepted", async () => {
    const { submit } = await withParent()
    const task = { task: "work.echo", after: "later" }
    expect(await submit(task, KEY)).toMatchObject({ status: 400, body: { field: "after" } })
    await submit({ task: "work.echo", id: "later" })
    expect(await submit(task, KEY)).toMatchObject({ status: 202, body: { state: "deferred" } })
  })
})

test("the same id again is a duplicate that tells how it stands; another task under it is refused", async () => {
  const { submit } = await withParent()
  const task = { task: "work.echo", id: "child", input: { n: 1 }, after: "p" }
  await submit(task)
  expect(await submit(task)).toMatchObject({ status: 202, body: { id: "child", state: "deferred", duplicate: true } })
  expect(await submit({ ...task, input: { n: 2 } })).toMatchObject({ status: 409, body: { code: "job-exists" } })
})

test("the stream of events begins with deferred, and ends with the job", async () => {
  const running = await start()
  const parent = (await running.submit({ task: "work.hold" })).body
  const child = (await running.submit({ task: "work.echo", after: parent.id })).body
  const response = await fetch(`${running.url}${child.href}/events`)
  const told: Array<readonly [string, string, string | undefined]> = []
  for await (const { event, id, data } of eventsOf(response)) {
    if (event !== "transition") continue
    const { state, reason } = JSON.parse(data ?? "")
    told.push([id ?? "", state, reason])
    if (state === "deferred") running.release()
  }
  expect(told).toEqual([
    ["1.1", "deferred", undefined],
    ["1.2", "queued", "released"],
    ["1.3", "started", undefined],
    ["1.4", "succeeded", undefined],
  ])
})

describe("Prefer: wait", () => {
  test("answers with the result of one that could start in time", async () => {
    const running = await start()
    await running.submit({ task: "work.echo", id: "p" })
    const response = await running.submit({ task: "work.echo", input: { n: 1 }, after: "p" }, { prefer: "wait=10" })
    expect(response).toMatchObject({ status: 200, body: { state: "succeeded", result: { n: 1 } } })
    expect(response.headers.get("preference-applied")).toBe("wait=10")
  })

  test("answers 202 for one that still waits", async () => {
    const { submit } = await withParent()
    const response = await submit({ task: "work.echo", after: "p" }, { prefer: "wait=0.2" })
    expect(response).toMatchObject({ status: 202, body: { state: "deferred" } })
  })
})

test("the document tells of after, of release and of dependents", () => {
  const document = openApiOf(routes, "", true)
  const { after } = Object(document.components.schemas["Task"]?.["properties"])
  expect(after.description).toMatch(/deferred/)
  expect(JSON.stringify(after)).toContain('"maxItems":1000')
  const cancel = document.paths["/v1/jobs/{id}/cancel"]?.["post"]
  const remove = document.paths["/v1/jobs/{id}"]?.["delete"]
  for (const [operation, name] of [
    [cancel, "release"],
    [remove, "dependents"],
  ] as const) {
    const parameter = operation?.parameters.find((each) => each.name === name)
    expect(parameter).toMatchObject({ in: "query", schema: { type: "boolean" } })
    expect(parameter?.description).toMatch(/wait for/)
  }
})

describe("a task with chord", () => {
  const members = [1, 2].map((n) => ({ task: "work.echo", input: { n } }))

  test("is deferred until its members have succeeded, and gets their results", async () => {
    const { ask, submit } = await start()
    const { status, body } = await submit({ task: "work.echo", id: "body", chord: members })
    expect([status, body]).toEqual([202, { id: "body", state: "deferred", href: "/v1/jobs/body", durability: "none" }])
    const { body: over } = await ask("GET", "/v1/jobs/body/result?wait=10s")
    expect(over).toMatchObject({ state: "succeeded", result: [{ n: 1 }, { n: 2 }] })
    expect((await ask("GET", "/v1/jobs/body")).body.chord).toEqual({ size: 2 })
    const { jobs } = (await ask("GET", "/v1/jobs?group=body")).body
    expect(jobs.map(({ id }: { readonly id: string }) => id).sort()).toEqual(["body-0", "body-1"])
  })

  test.each([
    ["no members", [], "chord"],
    ["a member of another form", [...members, 3], "chord"],
    ["a member with a wrong field", [...members, { task: "work.echo", priority: 11 }], "chord[2].priority"],
    ["a member that nobody serves", [{ task: "nobody.knows" }], "chord[0].task"],
  ])("is refused with %s, and nothing is stored", async (_, chord, field) => {
    const { ask, submit } = await start()
    const { status, body } = await submit({ task: "work.echo", chord })
    expect(status).toBeGreaterThanOrEqual(400)
    expect(body.field).toContain(field)
    expect((await ask("GET", "/v1/jobs")).body.jobs).toEqual([])
  })
})

test("groups are listed, counted by state and cancelled", async () => {
  const { ask, submit } = await start({ actors: [] })
  await submit([1, 2].map((n) => ({ task: "work.echo", id: `m${n}`, group: "g 1" })))
  await submit({ task: "work.echo", id: "body", chord: [{ task: "work.echo" }] })
  expect(await ask("GET", "/v1/groups")).toMatchObject({ status: 200, body: { groups: ["body", "g 1"] } })
  const page = await ask("GET", "/v1/groups?limit=1")
  expect(page.body).toEqual({ groups: ["body"], next: "body" })
  expect((await ask("GET", `/v1/groups?limit=1&cursor=${page.body.next}`)).body.groups).toEqual(["g 1"])
  expect((await ask("GET", "/v1/groups/g%201")).body).toEqual({ id: "g 1", total: 2, states: { queued: 2 } })
  const cancelled = await ask("POST", "/v1/groups/g%201/cancel")
  expect(cancelled).toMatchObject({ status: 200, body: { changed: 2, refused: [], more: false } })
  expect((await ask("GET", "/v1/groups/g%201")).body.states).toEqual({ cancelled: 2 })
  await ask("POST", "/v1/groups/body/cancel")
  expect((await ask("GET", "/v1/jobs/body")).body.state).toBe("cancelled")
  for (const [method, path] of [
    ["GET", "/v1/groups/none"],
    ["POST", "/v1/groups/none/cancel"],
  ] as const)
    expect(await ask(method, path)).toMatchObject({ status: 404, body: { code: "not-found", id: "none" } })
  expect(await ask("GET", "/v1/groups?limit=0")).toMatchObject({ status: 400, body: { field: "limit" } })
})
