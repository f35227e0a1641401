/** What a service answers before it has reached its transport, and what becomes of that when it never does. */
import { type ServeOptions, type Service, serve } from "callboard"
import { TransportError } from "callboard/transport"
import { afterEach, describe, expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import type { LiftedPlugin } from "../../../../runtime/transport/job-store/plugin.ts"
import { memory } from "../../../support/memory.ts"
import { eventually, freePort } from "../../../support/servers/process.ts"
import { Exposition } from "../metrics/exposition.ts"
import { broken } from "../worker/isolated-actor.ts"
import { work } from "./harness.ts"

const services: Array<Service> = []
afterEach(async () => {
  await Promise.all(services.splice(0).map((service) => service.stop({ now: true })))
})

/** A transport that cannot be reached before `arrive`; each try waits for `held`. */
const late = (held: Promise<unknown> = Promise.resolve()) => {
  let isThere = false
  let dialled = 0
  const plugin: LiftedPlugin = {
    schemes: ["late"],
    connect: async (_url, options) => {
      dialled++
      await held
      if (!isThere) throw new TransportError("unavailable", "nobody is there")
      return memory.connect(new URL(`memory://${generateId()}`), options)
    },
  }
  return {
    options: { transport: "late:", transports: { late: plugin }, signals: false, logLevel: "none" } as const,
    arrive: () => {
      isThere = true
    },
    dialled: () => dialled,
  }
}

const begin = async ({ http, ...options }: ServeOptions = {}, held?: Promise<unknown>) => {
  const board = late(held)
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const starting = serve({
    ...board.options,
    actors: [work(Promise.resolve())],
    reconnect: { base: 0.01, cap: 0.02 },
    ...options,
    http: { port, ...http },
  }).then((service) => {
    services.push(service)
    return service
  })
  starting.catch(() => undefined)
  const ask = async (path: string, init?: RequestInit) => {
    const response = await fetch(`${url}${path}`, init)
    const text = await response.text()
    const type = response.headers.get("content-type") ?? ""
    return { status: response.status, headers: response.headers, type, text }
  }
  await eventually(() => ask("/healthz"))
  return { ...board, starting, url, ask }
}

const post = (body: unknown, headers: Readonly<Record<string, string>> = {}): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify(body),
})

describe("while it is connecting", () => {
  test("it lives and is not ready; what is about the board is 503 with Retry-After", async () => {
    const { ask, starting, arrive, dialled } = await begin()
    await eventually(() => dialled() > 2)
    expect(await ask("/healthz")).toMatchObject({ status: 200 })
    const away: ReadonlyArray<readonly [path: string, init?: RequestInit]> = [
      ["/readyz"],
      ["/v1/jobs"],
      ["/v1/jobs", post({ task: "work.echo" })],
      ["/v1/jobs/some-id"],
      ["/v1/jobs/some-id/result?wait=5s"],
      ["/v1/jobs/some-id/events"],
      ["/v1/jobs/some-id/cancel", { method: "POST" }],
      ["/v1/events"],
      ["/v1/queues"],
      ["/v1/queues/default/pause", { method: "POST" }],
      ["/v1/workers"],
      ["/v1/actors"],
      ["/v1/info"],
      ["/v1/inspect/ping"],
      ["/v1/control/pool-grow", post({ count: 1 })],
    ]
    for (const [path, init] of away) {
      const { status, headers, type, text } = await ask(path, init)
      expect({ path, status, type, after: headers.get("retry-after") }, text).toEqual({
        path,
        status: 503,
        type: "application/problem+json",
        after: "1",
      })
      expect(JSON.parse(text)).toMatchObject({ code: "transport-unavailable" })
    }
    const one = await ask("/v1/jobs", post({ task: "work.echo", id: "mine" }))
    expect(JSON.parse(one.text)).toMatchObject({ outcome: "none" })
    const now = new Exposition((await ask("/metrics")).text)
    expect(now.value("callboard_transport_connected")).toBe(0)
    expect(await ask("/openapi.json")).toMatchObject({ status: 200 })
    expect(await ask("/")).toMatchObject({ status: 200 })

    arrive()
    const service = await starting
    await service.ready()
    expect(await ask("/readyz")).toMatchObject({ status: 200 })
    const accepted = await ask("/v1/jobs", post({ task: "work.echo", input: 7 }, { prefer: "wait=60" }))
    expect(JSON.parse(accepted.text)).toMatchObject({ state: "succeeded", result: 7 })
    const then = new Exposition((await ask("/metrics")).text)
    expect(then.value("callboard_transport_connected")).toBe(1)
    // It came for the first time, not back.
    expect(then.value("callboard_reconnects_total")).toBe(0)
  })

  test("tokens and hosts are looked at as ever", async () => {
    const { ask, starting, arrive } = await begin({ http: { tokens: [{ token: "reader", scopes: ["read"] }] } })
    expect((await ask("/v1/jobs")).status).toBe(401)
    expect((await ask("/v1/jobs", post({ task: "work.echo" }, { authorization: "Bearer reader" }))).status).toBe(403)
    expect((await ask("/v1/jobs", { headers: { authorization: "Bearer reader" } })).status).toBe(503)
    arrive()
    await starting
    expect((await ask("/v1/jobs", { headers: { authorization: "Bearer reader" } })).status).toBe(200)
  })
})

test("one that gives up listens no more", async () => {
  // Its tries begin once it has been seen to listen, which on a busy machine takes longer than all of them.
  const listens = Promise.withResolvers<void>()
  const { starting, url } = await begin({ reconnect: { maxTries: 5, base: 0.05, jitter: false } }, listens.promise)
  listens.resolve()
  await expect(starting).rejects.toMatchObject({ reason: "unavailable" })
  await expect(fetch(`${url}/healthz`)).rejects.toThrow()
})

test("one whose worker cannot start listens no more", async () => {
  const { starting, arrive, url } = await begin({ actors: [broken] })
  arrive()
  await expect(starting).rejects.toThrow("no licence")
  await expect(fetch(`${url}/healthz`)).rejects.toThrow()
})

describe("before anything is connected", () => {
  test.each<[ServeOptions["http"] & object, string]>([
    [{ port: -1 }, "http.port"],
    [{ port: 0, host: "0.0.0.0" }, "http.host"],
    [{ port: 0, tokens: [{ token: "not a token", scopes: ["read"] }] }, "http.tokens[0]"],
  ])("%j is refused", async (http, field) => {
    const { options, dialled } = late()
    await expect(serve({ ...options, http })).rejects.toMatchObject({ details: { field } })
    expect(dialled()).toBe(0)
  })
})
