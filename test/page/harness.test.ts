/** The helpers of these tests: each fault that a browser or axe reports fails a test. */
import { createServer } from "node:http"
import { expect, onTestFinished, test } from "vitest"
import { findings, openTab } from "./shown.ts"

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"

/** Serves one page under the content security policy of Callboard's page. Resolves with its address. */
const serveHtml = async (html: string): Promise<string> => {
  const server = createServer((_, response) => {
    response.writeHead(200, { "content-type": "text/html", "content-security-policy": POLICY }).end(html)
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const address = server.address()
  return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`
}

const FAULTS = [
  ["an inline script", "<script>alert(1)</script>", /policy violation: script-src-elem inline/],
  ["an inline style", "<p style='color: red'>x</p>", /policy violation: style-src-attr inline/],
  ["an image of another origin", "<img alt='' src='http://127.0.0.2:9/x.png'>", /request to another origin/],
] as const

test.fails.each(FAULTS)("%s fails a test", async (_, html) => {
  const url = await serveHtml(`<!doctype html><html lang="en"><title>t</title><main><h1>x</h1>${html}</main>`)
  const page = await openTab(url)
  await page.goto(url)
})

test.each(FAULTS)("%s can be expected", async (_, html, pattern) => {
  const url = await serveHtml(`<!doctype html><html lang="en"><title>t</title><main><h1>x</h1>${html}</main>`)
  const page = await openTab(url, {
    expected: [pattern, /^console: (Executing|Applying|Loading|policy violation: img-src)/],
  })
  await page.goto(url)
})

test("axe runs under the policy, and finds what is wrong", async () => {
  const url = await serveHtml('<!doctype html><html lang="en"><title>t</title><main><h1>x</h1><img src="x.png"></main>')
  const page = await openTab(url)
  await page.goto(url)
  expect((await findings(page)).map((line) => line.split(":")[0])).toEqual(["image-alt"])
})
