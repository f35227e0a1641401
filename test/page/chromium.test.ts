/** The browser itself, with a page that is not Callboard's. */
import { createServer } from "node:http"
import { expect, test } from "vitest"
import { freePort } from "../support/servers/process.ts"
import { connectChromium } from "./chromium.ts"

test("a page of this machine is opened and read", async () => {
  const port = await freePort()
  const server = createServer((_, answer) => {
    answer.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>a title</title><p>a text</p>")
  })
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve))
  try {
    const browser = await connectChromium()
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.goto(`http://127.0.0.1:${port}/`)
    expect(await page.title()).toBe("a title")
    // Without a font the browser draws no letters, and a text has no width.
    expect((await page.getByText("a text").boundingBox())?.width).toBeGreaterThan(10)
    await context.close()
  } finally {
    server.close()
    server.closeAllConnections()
  }
})
