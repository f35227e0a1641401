/** The page over HTTP: its shell at each address, its assets, and who gets text instead. */
import { createHash } from "node:crypto"
import { gunzipSync } from "node:zlib"
import { connect, http } from "callboard"
import { Hono } from "hono"
import { afterEach, beforeAll, describe, expect, onTestFinished, test } from "vitest"
import { pageRoutes } from "../../../../runtime/http/page/page.ts"
import { PATHS } from "../../../../runtime/page/paths.ts"
import { ensurePage } from "../../../support/tools/page.ts"
import { start, stopAll } from "./harness.ts"

beforeAll(ensurePage)
afterEach(stopAll)

const HTML = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" }
const policyWith = (style: string) =>
  `default-src 'none'; script-src 'self'; style-src 'self' 'sha256-${createHash("sha256").update(style).digest("base64")}'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'`

/** The application without a listener: what it answers is the same. */
const app = async (options: Parameters<typeof http>[1] = {}, path?: string) => {
  const client = await connect("memory:")
  onTestFinished(() => client.close())
  const own = http(client, { open: true, ...options })
  const served = path === undefined ? own : new Hono().route(path, own)
  return (at: string, init: RequestInit = {}) => served.request(`http://localhost${at}`, init)
}

const assetsIn = (html: string): ReadonlyArray<string> =>
  [...html.matchAll(/(?:href|src)="([^"]*\/assets\/[^"]+)"/g)].map(([, path = ""]) => path)

/** The files that the shell names, and those of views that are loaded when they are opened. */
const filesOf = async (ask: (path: string) => Promise<Response>, html: string): Promise<ReadonlyArray<string>> => {
  const first = assetsIn(html)
  const code = await (await ask(first.find((path) => path.endsWith(".js")) ?? "")).text()
  const later = [...code.matchAll(/import\("\.\/([^"]+)"/g)].map(([, name]) => `/assets/${name}`)
  expect(later.length).toBeGreaterThan(3)
  return [...new Set([...first, ...later])]
}

describe("the shell", () => {
  test("is at each address of the page, the same for all, and says that nothing else may run", async () => {
    const { url } = await start()
    const bodies = new Set<string>()
    for (const path of Object.values(PATHS)) {
      const response = await fetch(`${url}${path.replace(":id", "a%2Fb")}?state=failed`, { headers: HTML })
      expect(response.status).toBe(200)
      expect(Object.fromEntries(response.headers)).toMatchObject({
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": expect.stringContaining("require-trusted-types-for"),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-cache",
      })
      expect(response.headers.get("permissions-policy")).toContain("camera=()")
      const html = await response.text()
      const [, style = ""] = /<style>([^<]+)<\/style>/.exec(html) ?? []
      expect(response.headers.get("content-security-policy")).toBe(policyWith(style))
      bodies.add(html)
    }
    expect(bodies.size).toBe(1)
    const [html = ""] = bodies
    expect(html).toContain('data-base="" data-asks="false"')
    expect(html).not.toMatch(/<script(?! type="module" src=)|<style[^>]|<style>.*<style>|style=|\bon\w+=|\{\{/)
    expect(assetsIn(html)).toHaveLength(4)
  })

  test("is not sent again to a browser that has it, and has no body for HEAD", async () => {
    const ask = await app()
    const first = await ask("/jobs", { headers: HTML })
    const etag = first.headers.get("etag") ?? ""
    expect(etag).toMatch(/^"[\w-]{22}"$/)
    const again = await ask("/jobs", { headers: { ...HTML, "if-none-match": `W/"x", ${etag}` } })
    expect([again.status, await again.text()]).toEqual([304, ""])
    expect((await ask("/jobs", { headers: { ...HTML, "if-none-match": '"another"' } })).status).toBe(200)
    const head = await ask("/jobs", { method: "HEAD", headers: HTML })
    expect([head.status, await head.text(), head.headers.get("etag")]).toEqual([200, "", etag])
  })

  test("needs no token, and programs get text at the root", async () => {
    const ask = await app({ open: false, tokens: [{ token: "secret", scopes: ["read"] }] })
    expect(await (await ask("/", { headers: HTML })).text()).toContain('data-asks="true"')
    const text = await ask("/", { headers: { accept: "*/*" } })
    expect(text.headers.get("content-type")).toBe("text/plain; charset=utf-8")
    expect(text.headers.get("vary")).toBe("accept")
    expect(await text.text()).toContain("curl http://localhost/v1/jobs")
    expect((await ask("/reference", { headers: HTML })).headers.get("content-type")).toBe("text/html; charset=utf-8")
  })

  test.each(["/job", "/jobs/a/b", "/jobs/", "/index.html", "/assets", "/assets/x.js", "/errors/a/b", "/board", "/v1"])(
    "%s is an honest 404",
    async (path) => {
      const ask = await app()
      const response = await ask(path, { headers: HTML })
      expect(response.status).toBe(404)
      const isOfPage = path !== "/v1"
      expect(response.headers.get("content-type")).toBe(
        isOfPage ? "text/plain; charset=UTF-8" : "application/problem+json",
      )
      if (isOfPage) expect(await response.text()).toContain(`no page at ${path}`)
      expect((await ask(path)).headers.get("content-type")).toBe("application/problem+json")
    },
  )

  test("knows the path under which it is mounted", async () => {
    const ask = await app({}, "/a&b/board")
    for (const path of ["", "/jobs", "/jobs/jobs", "/workers/schedules"]) {
      const response = await ask(`/a&b/board${path}`, { headers: HTML })
      const html = await response.text()
      expect(html).toContain('data-base="/a&amp;b/board"')
      const [asset = ""] = assetsIn(html)
      expect((await ask(asset.replaceAll("&amp;", "&"))).status).toBe(200)
    }
    expect((await ask("/", { headers: HTML })).status).toBe(404)
  })

  test("is left out where the application says so", async () => {
    const ask = await app({ page: false })
    expect((await ask("/", { headers: HTML })).headers.get("content-type")).toBe("text/plain; charset=utf-8")
    expect((await ask("/jobs", { headers: HTML })).status).toBe(404)
  })

  test("answers to localhost only where no token is needed", async () => {
    const ask = await app({ open: false, loopbackOnly: true })
    const headers = { ...HTML, host: "board.example.com" }
    expect((await ask("/jobs", { headers })).status).toBe(403)
    expect((await ask("/assets/x.js", { headers })).status).toBe(403)
  })

  test("is said to be missing in a checkout that has not built it", async () => {
    const bare = pageRoutes(
      () => undefined,
      false,
      async () => undefined,
    )
    const response = await bare.request("http://localhost/", { headers: HTML })
    expect(response.status).toBe(503)
    expect(await response.text()).toMatch(/^The page is not built.*npm run page.*\n$/)
  })
})

describe("an asset", () => {
  test("is kept for ever under its hash, compressed for those that take it", async () => {
    const ask = await app()
    const html = await (await ask("/", { headers: HTML })).text()
    for (const path of await filesOf(async (each) => ask(each), html)) {
      expect(path).toMatch(/^\/assets\/\w+-(\w{8}\.js|[\da-f]{12}\.(css|svg))$/)
      const packed = await ask(path, { headers: { "accept-encoding": "br, gzip;q=0.8" } })
      expect(Object.fromEntries(packed.headers)).toMatchObject({
        "content-encoding": "gzip",
        "cache-control": "public, max-age=31536000, immutable",
        "x-content-type-options": "nosniff",
        vary: "accept-encoding",
      })
      const plain = await ask(path, { headers: { "accept-encoding": "br, gzip;q=0" } })
      expect(plain.headers.get("content-encoding")).toBeNull()
      expect(gunzipSync(Buffer.from(await packed.arrayBuffer()))).toEqual(Buffer.from(await plain.arrayBuffer()))
      expect(plain.headers.get("content-type")).toMatch(/^(text\/(javascript|css); charset=utf-8|image\/svg\+xml)$/)
    }
  })

  test("is shown to be whole by a listener, too", async () => {
    const { url } = await start()
    const files = await filesOf(
      (path) => fetch(`${url}${path}`),
      await (await fetch(`${url}/`, { headers: HTML })).text(),
    )
    const scripts = files.filter((path) => path.endsWith(".js"))
    const codes = await Promise.all(scripts.map(async (path) => (await fetch(`${url}${path}`)).text()))
    const code = codes.join("\n")
    expect(codes[0]?.length).toBeGreaterThan(20_000)
    // Whatever the libraries hold, the page itself makes elements from text alone.
    expect(code).not.toMatch(/\beval\(|new Function|insertAdjacentHTML|document\.write|outerHTML/)
  })
})
