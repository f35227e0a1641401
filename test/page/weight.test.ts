/** How many bytes a visit loads, and from which addresses. */
import { fileURLToPath } from "node:url"
import { expect, test } from "vitest"
import { runArguments } from "../../runtime/cli/runtimes.js"
import { spawnProcess, temporaryFolder } from "../support/servers/process.ts"
import { findDeno } from "../support/tools/deno.js"
import { boardOf, openTab, visit } from "./shown.ts"

/** Most bytes that a first visit may load, compressed, without the answers of the HTTP interface. */
const BUDGET = 60_000

test("a first visit stays within its budget and its origin; a second one takes the assets from the cache", async () => {
  const board = await boardOf({ actors: [] })
  const page = await visit(board.url, "/jobs")
  const loaded = () =>
    page.evaluate(() =>
      [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
        .filter((each): each is PerformanceResourceTiming => each instanceof PerformanceResourceTiming)
        .map(({ name, encodedBodySize, transferSize }) => ({ name, encodedBodySize, transferSize }))
        .filter(({ name }) => !name.includes("/v1/")),
    )
  const first = await loaded()
  expect(first.length).toBeGreaterThanOrEqual(3)
  expect(first.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)).toBeLessThan(BUDGET)
  expect(first.filter(({ name }) => !name.startsWith(board.url))).toEqual([])
  await page.goto(`${board.url}/workers`)
  await page.getByText("No workers are running").waitFor()
  const second = (await loaded()).filter(({ name, transferSize }) => name.includes("/assets/") && transferSize > 0)
  expect(second.map(({ name }) => name)).toEqual([expect.stringMatching(/\/workers-\w+\.js$/)])
})

test("a view that few visits begin with is loaded when it is opened, and says so if it does not come", async () => {
  const board = await boardOf({ actors: [] })
  const page = await openTab(board.url, { expected: [/^console: Failed to load resource/] })
  const scripts: Array<string> = []
  page.on("request", (request) => {
    if (request.resourceType() === "script") scripts.push(request.url().replace(/^.*\/(\w+)-\w+\.js$/, "$1"))
  })
  await page.route(/\/errors-\w+\.js$/, (route) => route.abort())
  await page.goto(`${board.url}/jobs`)
  await page.getByText("No jobs yet").waitFor()
  expect(scripts).toEqual(["main"])
  await page.getByRole("link", { name: "Schedules" }).click()
  await page.getByText("No schedules yet").waitFor()
  expect(scripts).toEqual(["main", "schedules"])
  await page.getByRole("link", { name: "Errors" }).click()
  await page.getByText("This page could not be loaded").waitFor()
  await page.unrouteAll({ behavior: "wait" })
  await page.getByRole("button", { name: "Reload" }).click()
  await page.getByText("No failures").waitFor()
})

test.each([
  ["/jobs", "No jobs yet", [/\/v1\/jobs\?/]],
  ["/", "workers alive", [/\/v1\/stats\?/, /\/v1\/series\?/, /\/v1\/tasks\?/]],
] as const)("%s is there after three round trips: the document, its files, its data", async (path, shown, data) => {
  const board = await boardOf({ actors: [] })
  const page = await openTab(board.url)
  const rounds = [
    [/\.css$/, /\.js$/],
    [/\/v1\/me$/, ...data],
  ].map((parts) => ({ parts, asked: new Set<RegExp>(), all: Promise.withResolvers<void>() }))
  // What is answered only once the others of its round were asked for would never come if it had to come before them.
  await page.route(/./, async (route) => {
    const url = route.request().url()
    for (const { parts, asked, all } of rounds) {
      const part = parts.find((each) => each.test(url))
      if (part === undefined) continue
      asked.add(part)
      if (asked.size === parts.length) all.resolve()
      await all.promise
    }
    await route.continue()
  })
  await page.goto(`${board.url}${path}`, { waitUntil: "commit" })
  await page.getByText(shown).first().waitFor()
  await page.unrouteAll({ behavior: "wait" })
})

test("the shell has an ETag and the headers of the policy, and assets may be cached for ever", async () => {
  const board = await boardOf({ actors: [] })
  const shell = await fetch(`${board.url}/jobs`, { headers: { accept: "text/html" } })
  const html = await shell.text()
  expect(shell.headers.get("content-security-policy")).toContain("require-trusted-types-for 'script'")
  expect(shell.headers.get("referrer-policy")).toBe("no-referrer")
  const again = await fetch(`${board.url}/jobs`, {
    headers: { accept: "text/html", "if-none-match": shell.headers.get("etag") ?? "" },
  })
  expect(again.status).toBe(304)
  const asset = await fetch(`${board.url}${/src="([^"]+)"/.exec(html)?.[1]}`)
  expect(asset.headers.get("cache-control")).toContain("immutable")
  expect((await asset.text()).length).toBeGreaterThan(10_000)
})

const SERVICE = fileURLToPath(new URL("../e2e/service.ts", import.meta.url))
const AS_A_BROWSER = { headers: { accept: "text/html", "accept-encoding": "gzip" } }

test("Deno serves the same page with the same headers, and the page works there on sqlite", async () => {
  using folder = temporaryFolder()
  const options = JSON.stringify({ http: { port: 0 } })
  const args = [...runArguments("deno", SERVICE), `sqlite:${folder.path}/board.db`, options]
  await using service = spawnProcess(findDeno(), args)
  const [, url = ""] = await service.waitForLine(/^ready (http\S+)/, 60_000)
  const board = await boardOf({ actors: [] })
  const [there, here] = await Promise.all([url, board.url].map((each) => fetch(`${each}/jobs`, AS_A_BROWSER)))
  expect(await there?.text()).toBe(await here?.text())
  for (const name of ["content-security-policy", "etag", "referrer-policy", "x-content-type-options"]) {
    expect(there?.headers.get(name), name).toBe(here?.headers.get(name))
  }

  const page = await visit(url, "/jobs")
  await page.getByText("No jobs yet").waitFor()
  const posted = await fetch(`${url}/v1/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ task: "e2e.step", input: {} }),
  })
  expect(posted.status).toBeLessThan(300)
  await page.getByRole("button", { name: "Show it" }).click()
  await page.getByRole("link", { name: "e2e.step" }).click()
  await page.locator("h1").getByText("Succeeded").waitFor()
  await page.getByText(`"pid": ${service.pid}`).waitFor()
  await page.getByRole("link", { name: "Queues & limits" }).click()
  await page.getByRole("row", { name: /default/ }).waitFor()
})
