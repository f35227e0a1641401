/** What a token allows on the page, and what an open page shows when the service or its token is gone. */
import { expect, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { eventually, freePort } from "../support/servers/process.ts"
import { ADMIN, boardOf, findings, openTab, READER, statuses, tokens, visit } from "./shown.ts"
import { settled, tooWide } from "./watching.ts"

test("a board that needs a token asks for it, and then shows the requested view", async () => {
  const board = await boardOf({ actors: [], http: { port: 0, tokens }, token: ADMIN })
  const page = await visit(board.url, "/workers", { expected: statuses(401) })
  await page.getByRole("heading", { name: "Token required" }).waitFor()
  expect(await findings(page)).toEqual([])
  await page.getByRole("textbox", { name: "Token" }).fill("nobody-0123456789abcdef")
  await page.keyboard.press("Enter")
  await page.getByRole("heading", { name: "Unknown token" }).waitFor()
  expect(await findings(page)).toEqual([])
  await page.getByRole("textbox", { name: "Token" }).fill(ADMIN)
  await page.keyboard.press("Enter")
  await page.getByText("No workers are running").waitFor()
  expect(new URL(page.url()).pathname).toBe("/workers")
  expect(await page.context().cookies()).toEqual([])
  // The token is stored for this tab only.
  expect(await page.evaluate(() => [localStorage.length, Object.values(sessionStorage)])).toEqual([0, [ADMIN]])
  await page.reload()
  await page.getByText("No workers are running").waitFor()
})

test("a board that needs a token decides by one request that it must ask for it", async () => {
  const board = await boardOf({ actors: [], http: { port: 0, tokens }, token: ADMIN })
  const page = await openTab(board.url, { expected: statuses(401) })
  const asked: Array<string> = []
  page.on("request", (request) => asked.push(new URL(request.url()).pathname))
  await page.goto(`${board.url}/`)
  await page.getByRole("heading", { name: "Token required" }).waitFor()
  await settled(page)
  expect(asked.filter((path) => path.startsWith("/v1/"))).toEqual(["/v1/me"])
  await page.getByRole("textbox", { name: "Token" }).fill(ADMIN)
  await page.keyboard.press("Enter")
  await page.getByText("0 workers alive").waitFor()
  await page.getByRole("button", { name: "Leave" }).click()
  await page.getByRole("heading", { name: "Token required" }).waitFor()
})

test("on a phone the theme is chosen, and the token is given up, behind More", async () => {
  const board = await boardOf({ actors: [], http: { port: 0, tokens }, token: ADMIN })
  const page = await visit(board.url, "/workers", { token: ADMIN, width: "phone", expected: statuses(401) })
  await page.getByRole("button", { name: "More" }).click()
  const dialog = page.getByRole("dialog")
  await dialog.getByRole("button", { name: "Colours: same as the system" }).click()
  await dialog.getByRole("button", { name: "Colours: light" }).waitFor()
  expect(await findings(page)).toEqual([])
  expect(await tooWide(page)).toEqual([])
  await dialog.getByRole("button", { name: "Leave" }).click()
  await page.getByRole("heading", { name: "Token required" }).waitFor()
  await dialog.waitFor({ state: "detached" })
})

test("the token in a link is used, and removed from the address at once", async () => {
  const board = await boardOf({ actors: [], http: { port: 0, tokens }, token: ADMIN })
  const page = await visit(board.url, "/workers", { token: ADMIN })
  await page.getByText("No workers are running").waitFor()
  expect(page.url()).toBe(`${board.url}/workers`)
  await page.getByText("on-call").first().waitFor()
  // A link that is opened in a tab with the page changes only the fragment, and its token is used as well.
  await page.evaluate((token) => {
    location.hash = `token=${token}`
  }, READER)
  await page.getByText("looks", { exact: true }).first().waitFor()
  expect(page.url()).toBe(`${board.url}/workers`)
})

test("a tab that was opened in the background loads when it is shown, and makes no request while it is hidden", async () => {
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
  await page.getByRole("heading", { name: "Token required" }).waitFor()
  await show(false)
  await page.getByRole("textbox", { name: "Token" }).fill(ADMIN)
  await page.keyboard.press("Enter")
  await page.getByText("No workers are running").waitFor()
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
  // While the visible tab makes three requests, the hidden tab at most finishes the request that it had begun.
  expect(asked.slice(before).filter((path) => path === "/v1/pulse").length).toBeLessThanOrEqual(1)
  await other.close()
  await show(false)
  await eventually(() => asked.slice(before).filter((path) => path === "/v1/pulse").length > 1)
})

test("a button whose action the token may not do names the scope, and copies a command without the token", async () => {
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
  // The page has no permission to read the clipboard, so another tab reads it.
  const other = await openTab(board.url, { context: page.context() })
  await other.goto(`${board.url}/healthz`)
  const copied = await other.evaluate(() => navigator.clipboard.readText())
  expect(copied).toBe(`curl -X POST '${board.url}/v1/queues/mail/pause' -H "Authorization: Bearer $CALLBOARD_TOKEN"`)
})

test("a token without the scope `read` gets a message that names it", async () => {
  const token = "posts-0123456789abcdef"
  const board = await boardOf({
    http: { port: 0, tokens: [...tokens, { name: "posts", token, scopes: ["submit"] }] },
    token: ADMIN,
  })
  const page = await visit(board.url, "/queues", { token, expected: statuses(403) })
  await page.getByText("Your token does not allow this: it needs the scope read.").first().waitFor()
  expect(await findings(page)).toEqual([])
})

/** Starts services one after the other on one board and one port, each with its own tokens, as restarts would. */
const restarts = async () => {
  const [port, transport] = [await freePort(), `memory://${generateId()}`]
  return (given: typeof tokens) => boardOf({ transport, http: { port, tokens: given }, token: given[0]?.token ?? "" })
}

/**
 * What the browser reports while a service is restarted: nobody listens, or a connection is closed in the middle of a request, or
 * the new service listens already and answers 503 since it has not opened its board yet.
 */
const OFFLINE = [
  /^console: Failed to load resource: net::ERR_(CONNECTION_(REFUSED|RESET|CLOSED)|EMPTY_RESPONSE)/,
  ...statuses(401, 403, 503),
]

test("while the service is away the page says so and keeps its data, and it continues when the service is back", async () => {
  const begin = await restarts()
  const first = await begin(tokens)
  await first.ended("mailer.send", { to: "ops@acme.test" })
  const page = await visit(first.url, "/queues", { token: ADMIN, expected: OFFLINE })
  await page.getByRole("row", { name: /mail/ }).waitFor()
  await first[Symbol.asyncDispose]()
  await page.getByText("No connection since").waitFor()
  // The rows stay, and lose their colour after a while.
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

test("when the token loses a scope the open page stays, and disables the buttons that need the scope", async () => {
  const begin = await restarts()
  const first = await begin(tokens)
  await first.ended("mailer.send", { to: "ops@acme.test" })
  const page = await visit(first.url, "/queues", { token: ADMIN, expected: OFFLINE })
  const pause = page.getByRole("row", { name: /mail/ }).getByRole("button", { name: "Pause" })
  await pause.waitFor()
  await first[Symbol.asyncDispose]()
  const second = await begin([{ name: "on-call", token: ADMIN, scopes: ["read"] }])
  await eventually(async () => (await second.ask("GET", "/v1/me")).status === 200)
  // The page may hear of the lost scope at any moment: a button that is disabled by then ignores the click, which does not wait.
  await pause.evaluate((button: HTMLElement) => button.click())
  await eventually(() => pause.isDisabled())
  expect((await second.ask("GET", "/v1/queues")).body.queues).toMatchObject([{ name: "mail", paused: false }])
})

test("when the service no longer knows the token the page asks for another one, and then shows the same view", async () => {
  const begin = await restarts()
  const first = await begin(tokens)
  const page = await visit(first.url, "/workers", { token: ADMIN, expected: OFFLINE })
  await page.getByRole("row", { name: /wk-1/ }).waitFor()
  await first[Symbol.asyncDispose]()
  await begin([{ name: "looks", token: READER, scopes: ["read"] }])
  await page.getByRole("heading", { name: "Unknown token" }).waitFor()
  await page.getByRole("textbox", { name: "Token" }).fill(READER)
  await page.keyboard.press("Enter")
  // The stopped worker is listed beside the running worker of the same name.
  await page.getByRole("row", { name: /Alive wk-1/ }).waitFor()
  await page.getByRole("row", { name: /Stopped wk-1/ }).waitFor()
})
