/** Routes about one job: its record, its result, and decisions about it. */
import { actor } from "callboard"
import { afterEach, describe, expect, test } from "vitest"
import { CANCEL_TOPIC } from "../../../../runtime/connection/connection.ts"
import { eventually } from "../../../support/servers/process.ts"
import { finished, type Running, start, stopAll } from "./harness.ts"

afterEach(stopAll)

const holding = async ({ submit, ask }: Running): Promise<string> => {
  const { body } = await submit({ task: "work.hold" })
  await eventually(async () => (await ask("GET", `/v1/jobs/${body.id}`)).body.progress !== undefined, {
    message: "the job runs and has told its progress",
  })
  return body.id
}

describe("the record", () => {
  test("tells the whole story", async () => {
    const running = await start()
    const { body: parent } = await running.submit({ task: "work.echo", delay: 3600 })
    const id = await finished(running, {
      task: "work.echo",
      input: { n: 1 },
      priority: 7,
      parentId: parent.id,
      rootId: parent.id,
      shadow: "Echo one",
      description: "an echo",
      meta: { tenant: "a" },
    })
    const { status, body } = await running.ask("GET", `/v1/jobs/${id}`)
    expect(status).toBe(200)
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
    expect(body).toMatchObject({
      id,
      task: "work.echo",
      meth: null,
      name: "Echo one",
      queue: "default",
      priority: 7,
      state: "succeeded",
      celeryState: "SUCCESS",
      run: 1,
      attempts: 1,
      retries: 0,
      times: { submitted: time, started: time, ended: time },
      result: { n: 1 },
      worker: expect.any(String),
      parentId: parent.id,
      rootId: parent.id,
      description: "an echo",
      meta: { tenant: "a" },
    })
    expect(body.transitions.map(({ state }: { state: string }) => state)).toEqual(["queued", "started", "succeeded"])
  })

  test("shows progress while it runs", async () => {
    const running = await start()
    const id = await holding(running)
    expect((await running.ask("GET", `/v1/jobs/${id}`)).body).toMatchObject({
      state: "started",
      progress: { fraction: 0.25, detail: { step: "holding" } },
    })
  })

  test("shows the error of a job that failed, with its traceback", async () => {
    const running = await start()
    const id = await finished(running, { task: "work.fail" })
    expect((await running.ask("GET", `/v1/jobs/${id}`)).body).toMatchObject({
      state: "failed",
      error: {
        name: "TypeError",
        message: "no such thing",
        reason: "handler",
        traceback: expect.stringContaining("at "),
      },
    })
  })
})

describe("what is asked for beside it", () => {
  test("its attempts: when each waited, ran and ended, and why", async () => {
    const running = await start({ version: "1.4.2" })
    const id = await finished(running, { task: "work.fail", retry: { max: 1, interval: 0 } })
    const { body } = await running.ask("GET", `/v1/jobs/${id}?with=attempts`)
    const time = expect.any(String)
    const error = { name: "TypeError", message: "no such thing" }
    const by = { run: 1, worker: expect.any(String), version: "1.4.2" }
    const attempt = { ...by, queued: time, started: time, ended: time, outcome: "failed" }
    expect(body.attempts).toMatchObject([
      { ...attempt, attempt: 1, reason: "retry", error },
      { ...attempt, attempt: 2, error: { ...error, traceback: expect.any(String) } },
    ])
    const holds = await holding(running)
    const runs = await running.ask("GET", `/v1/jobs/${holds}?with=attempts`)
    expect(runs.body.attempts).toMatchObject([{ attempt: 1, version: "1.4.2", started: time }])
    expect(runs.body.attempts[0]).not.toHaveProperty("ended")
  })

  test("its input, of a long one the beginning", async () => {
    const running = await start()
    const { ask, submit } = running
    const short = (await submit({ task: "work.echo", delay: 3600, input: { n: 1 }, retry: { max: 7 } })).body.id
    const { body } = await ask("GET", `/v1/jobs/${short}?with=input,attempts`)
    const input = { value: { n: 1 }, bytes: 7, truncated: false, redacted: [] }
    expect(body).toMatchObject({ input, attempts: [], retry: { max: 7 } })
    const long = (await submit({ task: "work.echo", delay: 3600, input: { text: "ü".repeat(100_000) } })).body.id
    const cut = (await ask("GET", `/v1/jobs/${long}?with=input`)).body.input
    expect(cut).toMatchObject({ encoding: "json", bytes: 200_011, truncated: true })
    expect(cut).not.toHaveProperty("value")
    expect(cut.raw.startsWith('{"text":"üü')).toBe(true)
    expect(new TextEncoder().encode(cut.raw).length).toBeLessThanOrEqual(64 * 1024)
    expect(cut.raw.at(-1)).toBe("ü")
  })

  test("what the method hides is named", async () => {
    const methods = { login: { redact: ["password"], run: (input: unknown) => input } }
    const running = await start({ actors: [actor("account", { methods })] })
    const sent = {
      task: "account.login",
      delay: 3600,
      input: { user: "a", password: "s3cret", more: { password: "x" } },
    }
    const { id } = (await running.submit(sent)).body
    const { body, text } = await running.ask("GET", `/v1/jobs/${id}?with=input`)
    expect(body.input).toMatchObject({ value: { user: "a", password: "***" }, redacted: ["password"] })
    expect(text).not.toContain("s3cret")
  })

  test("is not told again to a client that has it", async () => {
    const running = await start()
    const { id } = (await running.submit({ task: "work.echo", delay: 3600 })).body
    const path = `/v1/jobs/${id}?with=attempts`
    const first = await running.ask("GET", path)
    const etag = first.headers.get("etag") ?? ""
    const again = (value: string) => running.ask("GET", path, { headers: { "if-none-match": value } })
    expect(await again(`"other", W/${etag}`)).toMatchObject({ status: 304, text: "" })
    expect((await again('"other"')).status).toBe(200)
    await running.ask("POST", `/v1/jobs/${id}/cancel`)
    expect((await again(etag)).body).toMatchObject({ state: "cancelled" })
  })
})

describe("the tree", () => {
  test("has the jobs of the workflow, and those that wait for the job", async () => {
    const running = await start()
    const { submit, ask } = running
    const root = (await submit({ task: "work.echo", delay: 3600 })).body.id
    const child = (await submit({ task: "work.echo", delay: 3600, parentId: root, rootId: root })).body.id
    const waits = (await submit({ task: "work.echo", after: [child] })).body.id
    const { status, body } = await ask("GET", `/v1/jobs/${child}/tree`)
    expect(status).toBe(200)
    expect(body).toMatchObject({
      root,
      nodes: [
        { id: root, kind: "root", name: "work.echo", state: "scheduled", times: { submitted: expect.any(String) } },
        { id: child, kind: "child", parentId: root },
        { id: waits, kind: "child", state: "deferred", after: [child] },
      ],
      more: false,
    })
    // The view of the waiting job names the job that it waits for.
    const other = await ask("GET", `/v1/jobs/${waits}/tree`)
    expect(other.body.nodes.map((node: { readonly id: string }) => node.id).sort()).toEqual([child, waits].sort())
    const few = await ask("GET", `/v1/jobs/${child}/tree?limit=2`)
    expect(few.body).toMatchObject({ nodes: { length: 2 }, more: true })
    expect((await ask("GET", "/v1/jobs/nobody/tree")).status).toBe(404)
  })

  test("says which jobs follow from which", async () => {
    const running = await start()
    const fields = { callbacks: [{ task: "work.echo", id: "good" }], errbacks: [{ task: "work.echo", id: "bad" }] }
    const id = await finished(running, { task: "work.echo", ...fields })
    await eventually(async () => (await running.ask("GET", "/v1/jobs/good")).body.state === "succeeded")
    const { body } = await running.ask("GET", `/v1/jobs/${id}/tree`)
    expect(body.nodes).toMatchObject([
      { id, kind: "root" },
      { id: "good", kind: "callback", parentId: id },
    ])
    const links = ["first", "last"].map((link) => ({ task: "work.echo", id: link }))
    const chained = await finished(running, {
      task: "work.echo",
      callbacks: [{ task: "work.echo", id: "beside" }],
      chain: links,
    })
    await eventually(async () => (await running.ask("GET", "/v1/jobs/last")).body.state === "succeeded")
    const { nodes } = (await running.ask("GET", `/v1/jobs/${chained}/tree`)).body
    const kinds = nodes.map((node: { readonly id: string; readonly kind: string }) => [node.id, node.kind])
    expect(Object.fromEntries(kinds)).toEqual({ [chained]: "root", beside: "callback", first: "chain", last: "chain" })
  })
})

describe("run now", () => {
  test("a scheduled job runs at once", async () => {
    const running = await start()
    const { id } = (await running.submit({ task: "work.echo", delay: 3600 })).body
    expect(await running.ask("POST", `/v1/jobs/${id}/run-now`)).toMatchObject({
      status: 200,
      body: { state: "queued" },
    })
    expect((await running.ask("GET", `/v1/jobs/${id}/result?wait=20s`)).body).toMatchObject({ state: "succeeded" })
    const again = await running.ask("POST", `/v1/jobs/${id}/run-now`)
    expect(again).toMatchObject({ status: 409, body: { code: "already-terminal" } })
  })
})

describe("the result", () => {
  test("of a job that goes on is 202, with when to ask again", async () => {
    const running = await start()
    const id = await holding(running)
    const { status, headers, body } = await running.ask("GET", `/v1/jobs/${id}/result`)
    expect(status).toBe(202)
    expect(body).toEqual({ id, state: "started" })
    expect(headers.get("retry-after")).toBe("1")
  })

  test("of a scheduled job says to ask when it is due, within a minute", async () => {
    const { submit, ask } = await start()
    for (const [delay, expected] of [
      [30, 30],
      [3600, 60],
    ] as const) {
      const { body } = await submit({ task: "work.echo", delay })
      const { status, headers } = await ask("GET", `${body.href}/result`)
      expect(status).toBe(202)
      expect(Math.abs(Number(headers.get("retry-after")) - expected)).toBeLessThanOrEqual(1)
    }
  })

  test("comes as soon as the job ends, to whoever waits", async () => {
    const running = await start()
    const id = await holding(running)
    const waiting = running.ask("GET", `/v1/jobs/${id}/result?wait=30s`)
    await eventually(() => running.faults.watching.size > 0, { message: "the wait has begun" })
    const began = performance.now()
    running.release()
    expect(await waiting).toMatchObject({ status: 200, body: { id, state: "succeeded", result: "released" } })
    expect(performance.now() - began).toBeLessThan(15_000)
    expect(running.faults.watching.size).toBe(0)
  })

  test("is 202 when the wait is over before", async () => {
    const running = await start()
    const id = await holding(running)
    const began = performance.now()
    expect(await running.ask("GET", `/v1/jobs/${id}/result?wait=300ms`)).toMatchObject({ status: 202 })
    expect(performance.now() - began).toBeGreaterThanOrEqual(290)
  })

  test("of a job that returned nothing is null, and there", async () => {
    const running = await start()
    const id = await finished(running, { task: "work.nothing" })
    expect((await running.ask("GET", `/v1/jobs/${id}/result`)).body).toEqual({ id, state: "succeeded", result: null })
  })

  test("of failed, cancelled and expired jobs says so", async () => {
    const running = await start()
    const failed = await finished(running, { task: "work.fail" })
    expect((await running.ask("GET", `/v1/jobs/${failed}/result`)).body).toMatchObject({
      state: "failed",
      error: { name: "TypeError" },
    })
    const cancelled = (await running.submit({ task: "work.echo", delay: 3600 })).body
    await running.ask("POST", `${cancelled.href}/cancel`)
    expect((await running.ask("GET", `${cancelled.href}/result`)).body).toEqual({
      id: cancelled.id,
      state: "cancelled",
    })
    const expired = (await running.submit({ task: "work.echo", queue: "nobody", expires: 0.05 })).body
    await eventually(async () => (await running.ask("GET", `${expired.href}/result`)).status === 200, {
      message: "the job is expired",
    })
    expect((await running.ask("GET", `${expired.href}/result`)).body).toEqual({ id: expired.id, state: "expired" })
  })

  test("that is not kept any more is gone, and the job with it", async () => {
    const running = await start()
    const { id } = (await running.submit({ task: "work.echo", resultTtl: 0.05 })).body
    await eventually(async () => (await running.ask("GET", `/v1/jobs/${id}/result`)).status === 410, {
      message: "the result is gone",
    })
    const detail = expect.stringMatching(/: it ended as succeeded at 2\d{3}-.*Z, and its resultTtl was 0\.05 s$/)
    expect(await running.ask("GET", `/v1/jobs/${id}/result`)).toMatchObject({
      status: 410,
      body: { code: "gone", id, detail },
    })
    for (const path of ["", "/result?wait=1s", "/events"]) {
      expect(await running.ask("GET", `/v1/jobs/${id}${path}`)).toMatchObject({ status: 410, body: { code: "gone" } })
    }
    for (const path of ["cancel", "retry"]) {
      expect(await running.ask("POST", `/v1/jobs/${id}/${path}`)).toMatchObject({ status: 410, body: { code: "gone" } })
    }
  })

  test("is not waited for any longer when the client goes away", async () => {
    const running = await start()
    const id = await holding(running)
    const gone = new AbortController()
    const waiting = fetch(`${running.url}/v1/jobs/${id}/result?wait=60s`, { signal: gone.signal })
    await eventually(() => running.faults.watching.size > 0, { message: "the wait has begun" })
    gone.abort()
    await expect(waiting).rejects.toThrow()
    await eventually(() => running.faults.watching.size === 0, { message: "the wait has ended" })
  })
})

describe("cancel", () => {
  test("of a waiting job: it will not run", async () => {
    const running = await start()
    const { body } = await running.submit({ task: "work.echo", delay: 0.2 })
    const cancelled = await running.ask("POST", `${body.href}/cancel`)
    expect(cancelled).toMatchObject({ status: 200, body: { id: body.id, state: "cancelled", celeryState: "REVOKED" } })
    expect((await running.ask("GET", `${body.href}/result?wait=500ms`)).body.state).toBe("cancelled")
  })

  test("of a running job: its outcome is refused", async () => {
    const running = await start()
    const id = await holding(running)
    expect(await running.ask("POST", `/v1/jobs/${id}/cancel?terminate=false`)).toMatchObject({ status: 200 })
    running.release()
    expect((await running.ask("GET", `/v1/jobs/${id}`)).body.state).toBe("cancelled")
  })

  test("of one that is meant only while it waits: not once it runs", async () => {
    const running = await start()
    const id = await holding(running)
    const reverting = (job: string) => running.ask("POST", `/v1/jobs/${job}/cancel?state=deferred,scheduled,queued`)
    expect(await reverting(id)).toMatchObject({ status: 409, body: { code: "matches-differ" } })
    expect((await running.ask("GET", `/v1/jobs/${id}`)).body.state).toBe("started")
    const { body } = await running.submit({ task: "work.echo", delay: 3600 })
    expect(await reverting(body.id)).toMatchObject({ status: 200, body: { state: "cancelled" } })
  })

  test("of one that has ended: already-terminal", async () => {
    const running = await start()
    const id = await finished(running, { task: "work.echo" })
    expect(await running.ask("POST", `/v1/jobs/${id}/cancel`)).toMatchObject({
      status: 409,
      body: { code: "already-terminal", id },
    })
  })

  test.each([
    ["", false],
    ["?terminate=false", false],
    ["?terminate=true", true],
  ])("%s tells workers whether to end an isolated run at once", async (query, terminate) => {
    const running = await start()
    const id = await holding(running)
    const news: Array<unknown> = []
    const heard = new AbortController()
    const listener = (payload: Uint8Array) => news.push(JSON.parse(new TextDecoder().decode(payload)))
    await running.service.client.connection.broadcast.listen(CANCEL_TOPIC, listener, heard.signal)
    expect((await running.ask("POST", `/v1/jobs/${id}/cancel${query}`)).body.state).toBe("cancelled")
    await eventually(() => news.length > 0, { message: "the workers are told" })
    heard.abort()
    expect(news).toEqual([{ id, run: 1, terminate }])
  })
})

describe("retry", () => {
  test("of a failed job begins its next run under the same id", async () => {
    const running = await start()
    const id = await finished(running, { task: "work.fail" })
    expect(await running.ask("POST", `/v1/jobs/${id}/retry`)).toMatchObject({ status: 200, body: { id, run: 2 } })
    await eventually(async () => (await running.ask("GET", `/v1/jobs/${id}`)).body.state === "failed", {
      message: "the second run has ended",
    })
    expect((await running.ask("GET", `/v1/jobs/${id}`)).body).toMatchObject({ run: 2 })
  })

  test("of one that has not ended: job-exists; of one whose input is not kept: unsupported", async () => {
    const running = await start()
    const held = await holding(running)
    expect(await running.ask("POST", `/v1/jobs/${held}/retry`)).toMatchObject({
      status: 409,
      body: { code: "job-exists" },
    })
    const done = await finished(running, { task: "work.echo" })
    expect(await running.ask("POST", `/v1/jobs/${done}/retry`)).toMatchObject({
      status: 400,
      body: { code: "unsupported" },
    })
  })
})

describe("delete", () => {
  test("forgets a job that has ended", async () => {
    const running = await start()
    const id = await finished(running, { task: "work.echo" })
    expect(await running.ask("DELETE", `/v1/jobs/${id}`)).toMatchObject({ status: 204, text: "" })
    expect(await running.ask("GET", `/v1/jobs/${id}`)).toMatchObject({ status: 410 })
    expect((await running.ask("GET", "/v1/jobs")).body.jobs).toEqual([])
    expect(await running.ask("DELETE", `/v1/jobs/${id}`)).toMatchObject({ status: 410 })
  })

  test("of one that runs is refused", async () => {
    const running = await start()
    const id = await holding(running)
    expect(await running.ask("DELETE", `/v1/jobs/${id}`)).toMatchObject({ status: 409, body: { code: "job-exists" } })
  })
})

describe("meta", () => {
  test("of an ended job is changed by a merge patch", async () => {
    const running = await start()
    const id = await finished(running, { task: "work.fail", meta: { a: 1, b: { c: 2, d: 3 } } })
    const body = { a: null, b: { c: null }, e: [1] }
    const changed = await running.ask("PATCH", `/v1/jobs/${id}/meta`, { body })
    expect(changed).toMatchObject({ status: 200 })
    expect(changed.body.meta).toEqual({ b: { d: 3 }, e: [1] })
    const found = await running.ask("GET", `/v1/jobs/${id}`)
    expect(found.body).toMatchObject({ state: "failed", meta: { b: { d: 3 }, e: [1] } })
  })

  test("of one that waits is changed as well; what is no object is refused", async () => {
    const running = await start()
    const { body } = await running.submit({ task: "work.echo", delay: 3600 })
    const response = await running.ask("PATCH", `${body.href}/meta`, { body: { a: 1 } })
    expect(response).toMatchObject({ status: 200, body: { state: "scheduled", meta: { a: 1 } } })
    const refused = await running.ask("PATCH", `${body.href}/meta`, { body: [1] })
    expect(refused).toMatchObject({ status: 400, body: { code: "invalid-input", field: "meta" } })
  })
})
