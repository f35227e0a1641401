/** What a visit loads, and from where. */
import { expect, test } from "vitest"
import { boardOf, visit } from "./shown.ts"

/** Most bytes of a first visit, compressed. */
const BUDGET = 60_000

test("a first visit loads little, from here alone; a second one next to nothing", async () => {
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
  await page.getByText("No worker lives").waitFor()
  const second = (await loaded()).filter(({ name }) => name.includes("/assets/"))
  expect(second.filter(({ transferSize }) => transferSize > 0)).toEqual([])
})

test("the shell has an ETag, assets are kept for ever, and both say what a browser may do", async () => {
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
