/** What tokens may do, and what becomes of an open page when the service or its token goes away. */
import { expect, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { eventually, freePort } from "../support/servers/process.ts"
import { ADMIN, boardOf, findings, openTab, READER, statuses, tokens, visit } from "./shown.ts"

test("a board that needs a token asks for it, and shows what was asked for", async () => {
  const board = await boardOf({ actors: [], http: { port: 0, tokens }, token: ADMIN })
  const page = await visit(board.url, "/workers", { expected: statuses(401) })
  await page.getByRole("heading", { name: "A token is needed" }).waitFor()
  expect(await findings(page)).toEqual([])
  await page.getByRole("textbox", { name: "Token" }).fill("nobody-0123456789abcdef")
  await page.keyboard.press("Enter")
  await page.getByRole("heading", { name: "That token is not known" }).waitFor()
  expect(await findings(page)).toEqual([])
  await page.getByRole("textbox", { name: "Token" }).fill(ADMIN)
  await page.keyboard.press("Enter")
  await page.getByText("No worker lives").waitFor()
  expect(new URL(page.url()).pathname).toBe("/workers")
  expect(await page.context().cookies()).toEqual([])
  // It is kept for this tab alone.
  expect(await page.evaluate(() => [localStorage.length, Object.values(sessionStorage)])).toEqual([0, [ADMIN]])
  await page.reload()
  await page.getByText("No worker lives").waitFor()
})

test("the token of a link is taken, and leaves the address at once", async () => {
  const board = await boardOf({ actors: [], http: { port: 0, tokens }, token: ADMIN })
  const page = await visit(board.url, "/workers", { token: ADMIN })
  await page.getByText("No worker lives").waitFor()
  expect(page.url()).toBe(`${board.url}/workers`)
  await page.getByText("on-call").first().waitFor()
  // The same where the page is open already: then the fragment alone changes.
  await page.evaluate((token) => {
    location.hash = `token=${token}`
  }, READER)
  await page.getByText("looks", { exact: true }).first().waitFor()
  expect(page.url()).toBe(`${board.url}/workers`)
})

test("a tab that was opened behind others goes on when it is seen, and asks for nothing while it is not", async () => {
  const board = await boardOf({ actors: [], http: { port: 0, tokens }, token: ADMIN })
  const page = await openTab(board.url, { expected: statuses(401) })
  const asked: Array<string> = []
  page.on("request", (request) => asked.push(new URL(request.url()).pathname))
  const show = (isHidden: boolean) =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, value: hidden })
      document.dispatchEvent(new Event("visibilitychange"))
    }, isHidden)
  await page.addInitScript(() => Object.defineProperty(document, "hidden", { configurable: true, value: true }))
  await page.goto(`${board.url}/workers`)
  await page.getByRole("heading", { name: "A token is needed" }).waitFor()
  await show(false)
  await page.getByRole("textbox", { name: "Token" }).fill(ADMIN)
  await page.keyboard.press("Enter")
  await page.getByText("No worker lives").waitFor()
  await page.getByRole("button", { name: /^Live/ }).waitFor()
  await page.getByText("on-call").first().waitFor()
  expect(asked).toContain("/v1/pulse")

  await show(true)
  const other = await openTab(board.url, { context: page.context() })
  let pulses = 0
  other.on("request", (request) => {
    if (request.url().includes("/v1/pulse")) pulses++
  })
  const before = asked.length
  await other.goto(`${board.url}/workers#token=${ADMIN}`)
  await eventually(() => pulses >= 3)
  // While a tab in front asks three times, one behind ends at most what it had begun.
  expect(asked.slice(before).filter((path) => path === "/v1/pulse").length).toBeLessThanOrEqual(1)
  await other.close()
  await show(false)
  await eventually(() => asked.slice(before).filter((path) => path === "/v1/pulse").length > 1)
})

test("a reader sees the buttons, what they need, and the command without the token", async () => {
  const board = await boardOf({ http: { port: 0, tokens }, token: ADMIN })
  await board.ended("mailer.send", { to: "ops@acme.test" })
  const page = await visit(board.url, "/queues", { token: READER })
  const row = page.getByRole("row", { name: /mail/ })
  await row.waitFor()
  const pause = row.getByRole("button", { name: "Pause" })
  expect(await pause.isDisabled()).toBe(true)
  expect(await row.textContent()).toContain("Your token needs the scope operate for this")
  expect(await findings(page)).toEqual([])
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"])
  await row.getByRole("button", { name: "Copy as curl" }).click()
  await row.getByRole("button", { name: "Copied" }).waitFor()
  // The page itself may not read what is copied: another tab does.
  const other = await openTab(board.url, { context: page.context() })
  await other.goto(`${board.url}/healthz`)
  const copied = await other.evaluate(() => navigator.clipboard.readText())
  expect(copied).toBe(`curl -X POST '${board.url}/v1/queues/mail/pause' -H "Authorization: Bearer $CALLBOARD_TOKEN"`)
})

test("a token that may not even read is told which scope it lacks", async () => {
  const token = "posts-0123456789abcdef"
  const board = await boardOf({
    http: { port: 0, tokens: [...tokens, { name: "posts", token, scopes: ["submit"] }] },
    token: ADMIN,
  })
  const page = await visit(board.url, "/queues", { token, expected: statuses(403) })
  await page.getByText("Your token may not see this: it needs the scope read.").first().waitFor()
  expect(await findings(page)).toEqual([])
})

/** The same board and address with other tokens, as after a restart of the service. */
const restarts = async () => {
  const [port, transport] = [await freePort(), `memory://${generateId()}`]
  return (given: typeof tokens) => boardOf({ transport, http: { port, tokens: given }, token: given[0]?.token ?? "" })
}

const OFFLINE = [/^console: Failed to load resource: net::ERR_CONNECTION_REFUSED/, ...statuses(401, 403)]

test("a service that goes away is told, with what was seen; when it comes back the page goes on by itself", async () => {
  const begin = await restarts()
  const first = await begin(tokens)
  await first.ended("mailer.send", { to: "ops@acme.test" })
  const page = await visit(first.url, "/queues", { token: ADMIN, expected: OFFLINE })
  await page.getByRole("row", { name: /mail/ }).waitFor()
  await first[Symbol.asyncDispose]()
  await page.getByText("No connection since").waitFor()
  // What was there stays, and loses its colour after a while.
  await page.getByRole("row", { name: /mail/ }).waitFor()
  await page.locator("main.stale").waitFor()
  expect(await findings(page)).toEqual([])
  await page.getByRole("row", { name: /mail/ }).getByRole("button", { name: "Pause" }).click()
  await page.getByText("The service does not answer").first().waitFor()

  const second = await begin(tokens)
  await page.getByRole("button", { name: "Try now" }).first().click()
  await page.getByText("No connection since").waitFor({ state: "detached" })
  await second.ask("POST", "/v1/queues/mail/pause")
  await page.getByRole("row", { name: /mail/ }).getByRole("button", { name: "Resume" }).waitFor()
})

test("a token that loses its scope while the page is open keeps the page, and the buttons say it", async () => {
  const begin = await restarts()
  const first = await begin(tokens)
  await first.ended("mailer.send", { to: "ops@acme.test" })
  const page = await visit(first.url, "/queues", { token: ADMIN, expected: OFFLINE })
  const pause = page.getByRole("row", { name: /mail/ }).getByRole("button", { name: "Pause" })
  await pause.waitFor()
  await first[Symbol.asyncDispose]()
  const second = await begin([{ name: "on-call", token: ADMIN, scopes: ["read"] }])
  await eventually(async () => (await second.ask("GET", "/v1/me")).status === 200)
  if (await pause.isEnabled()) await pause.click()
  await eventually(() => pause.isDisabled())
  expect((await second.ask("GET", "/v1/queues")).body.queues).toMatchObject([{ name: "mail", paused: false }])
})

test("a token that is not known any more asks for another, and the view is there again", async () => {
  const begin = await restarts()
  const first = await begin(tokens)
  const page = await visit(first.url, "/workers", { token: ADMIN, expected: OFFLINE })
  await page.getByRole("row", { name: /wk-1/ }).waitFor()
  await first[Symbol.asyncDispose]()
  await begin([{ name: "looks", token: READER, scopes: ["read"] }])
  await page.getByRole("heading", { name: "That token is not known" }).waitFor()
  await page.getByRole("textbox", { name: "Token" }).fill(READER)
  await page.keyboard.press("Enter")
  // The one that was stopped is told beside the one that lives.
  await page.getByRole("row", { name: /Alive wk-1/ }).waitFor()
  await page.getByRole("row", { name: /Stopped wk-1/ }).waitFor()
})
