/** `callboard/http` in the pages of an application, in the browser. */
import { createServer } from "node:http"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"
import { expect, onTestFinished, test } from "vitest"
import { serveHttp, TOKEN, TOLD } from "../support/http-service.ts"
import { freePort } from "../support/servers/process.ts"
import { connectChromium } from "./chromium.ts"

const root = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url))

/** A page that runs the program and shows what it tells. `url`: of the service. */
const pageOf = async (url: string): Promise<string> => {
  const { outputFiles } = await build({
    stdin: {
      contents: `import { useHttp } from ${JSON.stringify(root("test/fixtures/http-program.ts"))}
        const show = (told) => { document.title = "done"; document.body.textContent = JSON.stringify(told) }
        useHttp(${JSON.stringify(url)}, ${JSON.stringify(TOKEN)}).then(show, (cause) => show([String(cause?.stack ?? cause)]))`,
      resolveDir: root("test"),
    },
    alias: { "callboard/http": root("runtime/client/http-mod.ts") },
    bundle: true,
    format: "iife",
    platform: "browser",
    write: false,
    logLevel: "silent",
  })
  return `<!doctype html><title>runs</title><body><script>${outputFiles[0]?.text.replaceAll("</script", "<\\/script")}</script>`
}

const toldBy = async (address: string, routes: (page: Page) => Promise<void> = async () => undefined) => {
  const context = await (await connectChromium()).newContext()
  onTestFinished(() => context.close())
  const page = await context.newPage()
  await routes(page)
  await page.goto(address)
  await page.waitForFunction(() => document.title === "done", undefined, { timeout: 60_000 })
  const told: unknown = JSON.parse((await page.textContent("body")) ?? "")
  return { told, page }
}

type Page = Awaited<
  ReturnType<Awaited<ReturnType<Awaited<ReturnType<typeof connectChromium>>["newContext"]>>["newPage"]>
>

test("from another origin, with a token", async () => {
  const port = await freePort()
  const origin = `http://localhost:${port}`
  const service = await serveHttp([origin])
  onTestFinished(async () => void (await service.stop({ now: true })))
  const html = await pageOf(service.url ?? "")
  const server = createServer((_, answer) => answer.writeHead(200, { "content-type": "text/html" }).end(html))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve))
  expect((await toldBy(origin)).told).toEqual(TOLD)
})

test("in a page that is not a secure context, below a path of its own origin", async () => {
  const service = await serveHttp()
  onTestFinished(async () => void (await service.stop({ now: true })))
  const html = await pageOf("/callboard")
  const { told, page } = await toldBy("http://plain.test/", async (page) => {
    await page.route("http://plain.test/", (route) => route.fulfill({ contentType: "text/html", body: html }))
    // As a proxy of the application's own does it.
    await page.route("http://plain.test/callboard/**", async (route) => {
      const request = route.request()
      const { pathname, search } = new URL(request.url())
      const body = request.postDataBuffer()
      const { host: _host, origin: _origin, referer: _referer, ...headers } = await request.allHeaders()
      const sent = Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith(":")))
      const response = await fetch(`${service.url}${pathname.slice("/callboard".length)}${search}`, {
        method: request.method(),
        headers: sent,
        ...(body === null ? {} : { body: new Uint8Array(body) }),
      })
      await route.fulfill({
        status: response.status,
        headers: { "content-type": response.headers.get("content-type") ?? "" },
        body: Buffer.from(await response.arrayBuffer()),
      })
    })
  })
  expect(told).toEqual(TOLD)
  expect(await page.evaluate(() => [isSecureContext, "randomUUID" in crypto])).toEqual([false, false])
})
