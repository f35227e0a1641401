/** Starting, stopping, and being mounted in the application of a user. */
import { connect, createServer } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { createAdaptorServer } from "@hono/node-server"
import { http } from "callboard"
import { Hono } from "hono"
import { afterEach, describe, expect, test } from "vitest"
import { isBun } from "../../../../runtime/platform/bun.ts"
import { isDeno } from "../../../../runtime/platform/deno.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start, stopAll } from "./harness.ts"

afterEach(stopAll)

/** As short as it may be where other machines reach it. */
const SECRET = "0123456789abcdef"

describe("starting", () => {
  test("takes a free port for 0 and says where it answers", async () => {
    const one = await start()
    const two = await start()
    expect(one.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect(one.url).not.toBe(two.url)
    expect((await one.ask("GET", "/healthz")).status).toBe(200)
  })

  test("listens on all addresses with tokens, and says how this machine reaches it", async () => {
    const running = await start({ http: { port: 0, host: "0.0.0.0", tokens: [{ token: SECRET, scopes: ["read"] }] } })
    expect(running.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect((await running.ask("GET", "/v1/info", { token: SECRET })).status).toBe(200)
  })

  test("on a port that is taken says so, and what to do; nothing is left behind", async () => {
    const taken = createServer()
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve))
    const address = taken.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    const starting = start({ http: { port } })
    await expect(starting).rejects.toMatchObject({
      code: "invalid-input",
      details: { field: "http.port" },
      message: `http.port: 127.0.0.1:${port} is in use; choose another port, or 0 for a free one`,
    })
    await new Promise((resolve) => taken.close(resolve))
  })

  test.each([-1, 65_536, 1.5, Number.NaN])("on port %s is refused", async (port) => {
    await expect(start({ http: { port } })).rejects.toMatchObject({ details: { field: "http.port" } })
  })

  test("on an address that is not this machine's says so", async () => {
    const tokens = [{ token: SECRET, scopes: ["read"] as const }]
    await expect(start({ http: { port: 0, host: "203.0.113.1", tokens } })).rejects.toMatchObject({
      details: { field: "http.host" },
      message: expect.stringContaining("203.0.113.1"),
    })
  })
})

test.each(["cancel", "signals/approved"])(
  "the connection of a large body that %s refuses stays open",
  async (route) => {
    const { url } = await start()
    const { port } = new URL(url)
    const socket = connect(Number(port), "127.0.0.1")
    let text = ""
    socket.on("data", (data) => {
      text += data
    })
    const answers = () => text.match(/HTTP\/1\.1 \d+/g)?.length ?? 0
    const ask = (line: string, body = "") =>
      socket.write(`${line} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    try {
      ask(`POST /v1/jobs/none/${route}`, "x".repeat(300_000))
      await eventually(() => answers() === 1, { message: "it is refused" })
      // Servers that close such a connection do so half a second after the answer.
      await sleep(700)
      expect(socket.closed || socket.readyState !== "open").toBe(false)
      ask("GET /healthz")
      await eventually(() => answers() === 2, { deadline: 20_000, message: "the next request is answered" })
    } finally {
      socket.destroy()
    }
  },
)

describe("stopping", () => {
  test("ends listening, at once when nothing runs, and twice is once", async () => {
    const { service, url, ask } = await start()
    expect((await ask("GET", "/healthz")).status).toBe(200)
    const began = performance.now()
    await Promise.all([service.stop(), service.stop()])
    expect(performance.now() - began).toBeLessThan(4_000)
    await expect(fetch(`${url}/healthz`)).rejects.toThrow()
  })

  test("lets a running submission finish", async () => {
    const { service, submit, faults } = await start()
    let arrived = false
    faults.before = async (call) => {
      if (call !== "jobs.publish") return
      arrived = true
      await new Promise((resolve) => setTimeout(resolve, 300))
    }
    const submission = submit({ task: "work.echo" })
    await eventually(() => arrived, { message: "the submission is on its way", every: 5 })
    const stopped = service.stop({ now: true })
    expect(await submission).toMatchObject({ status: 202 })
    await stopped
  })
})

/** Serves an application as the documentation says, with all that the runtime takes for itself. */
const serveHere = async (fetch: (request: Request, server?: unknown) => Response | Promise<Response>) => {
  const bun: unknown = Reflect.get(globalThis, "Bun")
  const deno: unknown = Reflect.get(globalThis, "Deno")
  if (isBun(bun)) {
    const server = bun.serve({ hostname: "127.0.0.1", port: 0, fetch })
    return { url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) }
  }
  if (!isDeno(deno)) {
    const server = createAdaptorServer({ fetch })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const address = server.address()
    const port = typeof address === "object" ? address?.port : undefined
    const stop = () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        if ("closeAllConnections" in server) server.closeAllConnections()
      })
    return { url: `http://127.0.0.1:${port}`, stop }
  }
  const stop = new AbortController()
  const options = { hostname: "127.0.0.1", port: 0, signal: stop.signal, onListen: () => undefined }
  const { addr } = deno.serve(options, fetch)
  return { url: `http://127.0.0.1:${addr.port}`, stop: async () => stop.abort() }
}

describe("mounted", () => {
  test("waits and streams outlast the ten seconds after which Bun's server cuts what is silent", async () => {
    const running = await start()
    const { body } = await running.submit({ task: "work.hold" })
    const app = new Hono().route("/board", http(running.service.client, { open: true }))
    const server = await serveHere(app.fetch)
    const plain = await serveHere((request) => app.fetch(request))
    try {
      const stream = await fetch(`${plain.url}/board${body.href}/events`)
      const events = stream.text()
      const waited = await fetch(`${server.url}/board${body.href}/result?wait=13s`)
      expect(waited.status).toBe(202)
      running.release()
      expect(await events).toContain("succeeded")
    } finally {
      await Promise.all([server.stop(), plain.stop()])
    }
  })

  test("it serves under its path, and its links lead there", async () => {
    const { service } = await start()
    const app = new Hono().get("/", (c) => c.text("mine")).route("/board/jobs", http(service.client, { open: true }))
    const submitted = await app.request("/board/jobs/v1/jobs", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ task: "work.echo", input: 7 }),
    })
    const receipt = (await submitted.json()) as { readonly id: string; readonly href: string }
    expect(receipt.href).toBe(`/board/jobs/v1/jobs/${receipt.id}`)
    expect(submitted.headers.get("location")).toBe(receipt.href)
    const result = await app.request(`${receipt.href}/result?wait=5s`)
    expect(await result.json()).toMatchObject({ state: "succeeded", result: 7 })
    expect(await (await app.request("/")).text()).toBe("mine")
    const document: unknown = await (await app.request("/board/jobs/openapi.json")).json()
    expect(document).toMatchObject({ servers: [{ url: "/board/jobs" }] })
    expect(await (await app.request("/board/jobs")).text()).toContain("/board/jobs/openapi.json")
  })

  test("it answers with its own problems, and leaves other paths alone", async () => {
    const { service } = await start()
    const app = new Hono().route("/jobs", http(service.client, { open: true }))
    const missing = await app.request("/jobs/v1/jobs/unheard-of")
    expect(missing.status).toBe(404)
    expect(await missing.json()).toMatchObject({ code: "not-found", id: "unheard-of" })
    expect(await (await app.request("/jobs/nothing")).json()).toMatchObject({ code: "not-found" })
    expect((await app.request("/jobs/v1/jobs", { method: "PUT" })).headers.get("allow")).toBe("POST, GET, HEAD")
    expect(await (await app.request("/elsewhere")).text()).toBe("404 Not Found")
  })

  test("without tokens it needs a word that this is meant, and says which", async () => {
    const { service } = await start()
    for (const options of [undefined, {}, { tokens: [] }, { open: false }]) {
      expect(() => http(service.client, options)).toThrow(
        expect.objectContaining({
          code: "invalid-input",
          message: expect.stringMatching(/`tokens`.*`loopbackOnly: true`.*`open: true`/),
        }),
      )
    }
    const here = http(service.client, { loopbackOnly: true })
    const host = (name: string) => ({ headers: { host: name } })
    expect((await here.request("/v1/queues", host("localhost:3000"))).status).toBe(200)
    const elsewhere = await here.request("/v1/queues", host("board.example.com"))
    expect(elsewhere.status).toBe(403)
  })

  test("it takes tokens of its own, and refuses pages of other origins without", async () => {
    const { service } = await start()
    const guarded = new Hono().route("/jobs", http(service.client, { tokens: [{ token: "secret", scopes: ["read"] }] }))
    expect((await guarded.request("/jobs/v1/info")).status).toBe(401)
    const authorized = await guarded.request("/jobs/v1/info", { headers: { authorization: "Bearer secret" } })
    expect(authorized.status).toBe(200)
    const open = new Hono().route("/jobs", http(service.client, { open: true }))
    const external = await open.request("/jobs/v1/jobs/cancel?state=queued", {
      method: "POST",
      headers: { origin: "https://evil.example", host: "board.example.com" },
    })
    expect(external.status).toBe(403)
  })
})
