/** The page without data, while data loads, with more data than was counted, and without a transport; and its addresses. */
import { mkdirSync, renameSync } from "node:fs"
import { http } from "callboard"
import { Hono } from "hono"
import type { Page, Route } from "playwright-core"
import { expect, onTestFinished, test } from "vitest"
import { listen } from "../../runtime/http/listener.ts"
import { generateId } from "../../runtime/id.ts"
import { eventually, temporaryFolder } from "../support/servers/process.ts"
import { boardOf, findings, openTab, statuses, visit } from "./shown.ts"
import { settled, tooWide } from "./watching.ts"

const EMPTY: ReadonlyArray<readonly [path: string, words: string]> = [
  ["/", "No job has run in the last hour"],
  ["/jobs", "No jobs yet"],
  ["/errors", "No failures"],
  ["/queues", "No queues yet"],
  ["/workers", "No workers are running"],
  ["/workers/wk-9", "No worker with this name is running"],
  ["/queues/nothing", "This queue does not exist"],
  ["/schedules", "No schedules yet"],
  ["/dead", "No dead letters"],
]

test("each view says that the board is empty", async () => {
  const board = await boardOf({ actors: [] })
  const page = await openTab(board.url)
  // The page requests a range of time by name, since the browser's clock may be wrong; the service computes its edges.
  const series: Array<string> = []
  page.on("request", (request) => {
    const { pathname, searchParams } = new URL(request.url())
    if (pathname === "/v1/series") series.push([...searchParams.keys()].join())
  })
  await page.goto(board.url)
  await eventually(() => series.length > 0)
  expect([...new Set(series)]).toEqual(["of,by,range"])
  for (const [path, words] of EMPTY) {
    await page.goto(`${board.url}${path}`)
    await settled(page)
    await page.getByText(words).first().waitFor()
    expect(await findings(page), path).toEqual([])
  }
})

test("an empty list shows the command that submits a job to this board", async () => {
  const board = await boardOf({ actors: [] })
  const page = await visit(board.url, "/jobs")
  await page.getByText("No jobs yet").waitFor()
  const command = (await page.locator("pre.code").textContent()) ?? ""
  expect(command).toContain(`curl ${board.url}/v1/jobs`)
  expect(command).not.toContain("Authorization")
})

/** Holds back the answers of the service until `letThrough` is called for their paths. */
const holdBack = async (page: Page) => {
  const held = new Map<string, Array<Route>>()
  let isOpen = (_path: string): boolean => false
  await page.route("**/v1/**", async (route) => {
    const { pathname } = new URL(route.request().url())
    if (isOpen(pathname)) await route.continue()
    else held.set(pathname, [...(held.get(pathname) ?? []), route])
  })
  return {
    /** Waits for requests of these paths and answers them with `answer`. Later requests of these paths are not held back. */
    letThrough: async (paths: ReadonlyArray<string>, answer = (route: Route) => route.continue()): Promise<void> => {
      const before = isOpen
      isOpen = (path) => paths.includes(path) || before(path)
      for (const path of paths) {
        await eventually(() => held.has(path))
        for (const route of held.get(path) ?? []) await answer(route)
      }
    },
  }
}

test("the shell is shown first, then placeholders; each part is loaded, or fails, independently of the others", async () => {
  const board = await boardOf()
  await board.ended("work.echo")
  const page = await openTab(board.url, { expected: statuses(500) })
  const { letThrough } = await holdBack(page)
  await page.goto(`${board.url}/queues`)
  await page.getByRole("heading", { name: "Queues & limits" }).waitFor()
  await page.getByRole("link", { name: "Workers" }).first().waitFor()
  await page.getByText("Loading").first().waitFor({ state: "attached" })
  expect(await findings(page)).toEqual([])
  expect(await tooWide(page)).toEqual([])
  await letThrough(["/v1/me", "/v1/queues"])
  await page.getByRole("row", { name: /default/ }).waitFor()
  const limits = page.getByRole("region", { name: "Limits" })
  await limits.getByText("Loading").waitFor({ state: "attached" })
  await letThrough(["/v1/limits"], (route) => route.fulfill({ status: 500, json: { detail: "the cat sat on it" } }))
  await limits.getByText("the cat sat on it").waitFor()
  expect(await findings(page)).toEqual([])
  await limits.getByRole("button", { name: "Try again" }).click()
  await limits.getByText("imports.rows").waitFor()
  await page.getByRole("row", { name: /default/ }).waitFor()
})

test("where no job matches, each filter is offered for removal with the number of jobs that would match then", async () => {
  const board = await boardOf()
  for (let n = 0; n < 3; n++) await board.ended("work.echo", { n })
  await board.ended("mailer.send", { to: "ops@acme.test" })
  const page = await visit(board.url, "/jobs?state=failed&task=work.echo")
  await page.getByText("No job matches").waitFor()
  await page.getByRole("link", { name: "1 without task work.echo" }).waitFor()
  expect(await findings(page)).toEqual([])
  await page.getByRole("link", { name: "3 without state failed" }).click()
  await page
    .getByRole("row", { name: /work\.echo/ })
    .first()
    .waitFor()
  expect(new URL(page.url()).search).toBe("?task=work.echo")
})

test("how many jobs the address asks for, and for how long, are no filters", async () => {
  const board = await boardOf()
  await board.ended("work.echo")
  const page = await visit(board.url, "/jobs?task=work.echo&limit=1&budget=1s&count=true")
  await page.getByRole("row", { name: /work\.echo/ }).waitFor()
  expect(await page.getByRole("link", { name: /^Remove the filter/ }).count()).toBe(1)
  await page.getByRole("link", { name: "Remove the filter task" }).waitFor()
})

test("a filter that the service does not know is named, and a link removes it", async () => {
  const board = await boardOf()
  await board.ended("work.echo")
  const page = await visit(board.url, "/jobs?colour=red", { expected: statuses(400) })
  await page.getByRole("link", { name: "Drop colour" }).waitFor()
  expect(await findings(page)).toEqual([])
  await page.getByRole("link", { name: "Drop colour" }).click()
  await page.getByRole("row", { name: /work\.echo/ }).waitFor()
})

test("a count that was cut shows `more than`, and a partial list has a link that goes on", async () => {
  const board = await boardOf()
  for (let n = 0; n < 3; n++) await board.ended("work.echo", { n })
  const page = await openTab(board.url)
  // A board of a million jobs answers like this: counting and searching stop at their limits.
  await page.route("**/v1/jobs?*", async (route) => {
    const answer = await route.fetch()
    const total = { value: 10_000, relation: "gte" }
    await route.fulfill({ response: answer, json: { ...(await answer.json()), total, partial: true, next: "go-on" } })
  })
  await page.goto(`${board.url}/jobs?task=work.echo`)
  await page.getByText("more than 10,000").waitFor()
  await eventually(async () => (await page.title()).startsWith("more than 10,000 "))
  const on = page.getByRole("link", { name: "continue from here" })
  await on.waitFor()
  expect(new URL((await on.getAttribute("href")) ?? "", board.url).search).toBe("?task=work.echo&cursor=go-on")
  expect(await findings(page)).toEqual([])
})

test("a cursor of another board is refused, and a link leads to the beginning of the list", async () => {
  const [board, other] = [await boardOf(), await boardOf()]
  for (const each of [board, other, other]) await each.ended("work.echo")
  const { next } = (await other.ask("GET", "/v1/jobs?limit=1")).body
  const page = await visit(board.url, `/jobs?cursor=${encodeURIComponent(next)}`, { expected: statuses(400) })
  await page.getByRole("link", { name: "Drop cursor" }).click()
  await page.getByRole("row", { name: /work\.echo/ }).waitFor()
})

test("while the transport is away the page shows the service's message, and it continues when it is back", async () => {
  using folder = temporaryFolder()
  const [place, away] = [`${folder.path}/board`, `${folder.path}/away`]
  mkdirSync(place)
  const board = await boardOf({ transport: `sqlite:${place}/board.db` })
  await board.ended("work.echo", { n: 1 })
  const page = await visit(board.url, "/queues", { expected: statuses(503) })
  await page.getByRole("row", { name: /default/ }).waitFor()
  renameSync(place, away)
  await page.getByText("No connection since").waitFor()
  const ready = await (await fetch(`${board.url}/readyz`)).json()
  await page.getByText(ready.detail).first().waitFor()
  await page.getByRole("row", { name: /default/ }).waitFor()
  expect(await findings(page)).toEqual([])
  // The service still serves the page, which shows the same message.
  await page.reload()
  await page.getByText("No connection since").waitFor()
  expect(await findings(page)).toEqual([])
  renameSync(away, place)
  await page.getByRole("row", { name: /default/ }).waitFor()
  await page.getByText("No connection since").waitFor({ state: "detached" })
})

test("a deleted job and an unknown id have different messages", async () => {
  const board = await boardOf()
  const id = await board.ended("work.echo")
  const page = await visit(board.url, `/jobs/${id}`, { expected: statuses(404, 410) })
  await page.locator("h1").getByText("Succeeded").waitFor()
  expect((await board.ask("DELETE", `/v1/jobs/${id}`)).status).toBeLessThan(300)
  // The open view of the job shows that it was deleted, and so does the address when it is opened again.
  await page.getByRole("heading", { name: "This job is no longer kept" }).waitFor()
  await page.reload()
  await page.getByRole("heading", { name: "This job is no longer kept" }).waitFor()
  await eventually(async () => (await page.title()).includes("Gone"))
  await page.getByText(/it ended as succeeded at 2.*Z, and was deleted$/).waitFor()
  expect(await findings(page)).toEqual([])
  await page.goto(`${board.url}/jobs/${generateId()}`)
  await page.getByRole("heading", { name: "Job not found" }).waitFor()
  expect(await findings(page)).toEqual([])
  await page.getByRole("link", { name: "All jobs" }).click()
  await page.getByText("No jobs yet").waitFor()
})

test("the server answers 404 for an address without a view", async () => {
  const board = await boardOf({ actors: [] })
  expect((await fetch(`${board.url}/nothing-here`, { headers: { accept: "text/html" } })).status).toBe(404)
})

test("when the application is mounted under a path, the page makes requests under this path only", async () => {
  const board = await boardOf()
  await board.ended("mailer.send", { to: "ops@acme.test" })
  const app = new Hono().route("/ops/board", http(board.service.client, { loopbackOnly: true }))
  const listener = await listen(
    { host: "127.0.0.1", port: 0 },
    (request) => app.fetch(request),
    () => undefined,
  )
  onTestFinished(() => listener.kill())
  const url = `http://127.0.0.1:${listener.port}`
  const asked: Array<string> = []
  const page = await visit(url, "/ops/board/queues")
  page.on("request", (request) => asked.push(new URL(request.url()).pathname))
  await page.getByRole("row", { name: /mail/ }).waitFor()
  await page.getByRole("link", { name: "mail" }).click()
  await page.getByRole("heading", { name: "mail" }).waitFor()
  expect(new URL(page.url()).pathname).toBe("/ops/board/queues/mail")
  await page.reload()
  await page.getByRole("heading", { name: "mail" }).waitFor()
  await page.getByRole("link", { name: "Workers" }).first().click()
  await page.getByRole("row", { name: /wk-1/ }).waitFor()
  await page.goBack()
  await page.getByRole("heading", { name: "mail" }).waitFor()
  expect(asked.filter((path) => !path.startsWith("/ops/board/"))).toEqual([])
})

test("with `page: false` the service answers no address of the page", async () => {
  const board = await boardOf({ actors: [], http: { port: 0, page: false } })
  const accept = { headers: { accept: "text/html" } }
  expect((await fetch(`${board.url}/queues`, accept)).status).toBe(404)
  expect(await (await fetch(`${board.url}/`, accept)).text()).not.toContain("data-base")
})
