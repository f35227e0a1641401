/** What people come for: watch a job, learn why it waits, retry what failed, one by one and many at once. */
import { expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { boardOf, openTab, visit } from "./shown.ts"

test("a job is announced, opened, watched to its end", async () => {
  const board = await boardOf()
  const page = await visit(board.url, "/jobs")
  await page.getByText("No job has come yet").waitFor()
  const id = await board.submit("work.hold")
  await page.getByRole("button", { name: "Show it" }).click()
  await page.getByRole("link", { name: "work.hold" }).click()
  await page.getByText("What it does now").waitFor()
  expect(new URL(page.url()).pathname).toBe(`/jobs/${id}`)
  board.release()
  await page.locator("h1").getByText("Succeeded").waitFor()
  await page.getByText('"released"').waitFor()
  await page.goBack()
  await page.getByRole("link", { name: "work.hold" }).waitFor()
})

test("why a job waits, with the remedy beside it", async () => {
  const board = await boardOf()
  await board.ask("POST", "/v1/queues/default/pause")
  const id = await board.submit("work.echo", { n: 1 })
  const page = await visit(board.url, `/jobs/${id}`)
  await page.getByText("Why it does not run").waitFor()
  await page.getByRole("button", { name: "Resume the queue" }).click()
  await page.locator("h1").getByText("Succeeded").waitFor()
})

test("a job that failed says with what, and is retried by a key", async () => {
  const board = await boardOf()
  const id = await board.ended("mailer.send", { to: "ceo@acme.test" })
  const page = await visit(board.url, `/jobs/${id}`)
  await page.locator("h1").getByText("Failed").waitFor()
  await page.getByText("SmtpRejected").first().waitFor()
  board.mail(true)
  await page.keyboard.press("r")
  await page.locator("h1").getByText("Succeeded").waitFor()
})

test("a running job is cancelled after a question, and that is taken back", async () => {
  const board = await boardOf()
  const id = await board.submit("work.hold")
  await board.reached(id, "started")
  const page = await visit(board.url, `/jobs/${id}`)
  await page.getByRole("button", { name: "Cancel…" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Not now" }).click()
  await page.getByRole("button", { name: "Cancel…" }).click()
  await page.getByRole("dialog").waitFor()
  await page.keyboard.press("Escape")
  await page.getByRole("dialog").waitFor({ state: "detached" })
  expect((await board.ask("GET", `/v1/jobs/${id}`)).body.state).toBe("started")
  await page.getByRole("button", { name: "Cancel…" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Cancel the job" }).click()
  await page.locator("h1").getByText("Cancelled").waitFor()
  await page.getByRole("button", { name: "Undo" }).click()
  await page.locator("h1").getByText("Running").waitFor()
})

test("many are retried: all that match, a few first, and undone before it begins", async () => {
  const board = await boardOf()
  const mails = Array.from({ length: 60 }, (_, n) => ({ task: "mailer.send", input: { to: `p${n}@acme.test` } }))
  await board.ask("POST", "/v1/jobs", mails)
  const count = async (state: string): Promise<number> =>
    (await board.ask("GET", `/v1/count?state=${state}`)).body.count
  await eventually(async () => (await count("failed")) === 60)
  const page = await visit(board.url, "/jobs?state=failed&task=mailer.send")
  const begin = async () => {
    await page.getByRole("checkbox", { name: "Select all on this page" }).check()
    await page.getByRole("button", { name: /^Select all (60 |more than \d+ )?that match$/ }).click()
    await page.getByRole("button", { name: "Retry…" }).click()
    const dialog = page.getByRole("dialog")
    await dialog.getByText("can be retried").waitFor()
    await dialog.getByRole("button", { name: "Try 5, then 55" }).click()
    await page.getByText("60 jobs will be retried in").waitFor()
  }
  await begin()
  await page.getByRole("button", { name: "Undo" }).click()
  await page.getByText("Undone").waitFor()
  expect(await count("failed")).toBe(60)
  await page.getByRole("button", { name: "Close" }).click()

  board.mail(true)
  await page.reload()
  await begin()
  await page.getByText("5 tried first").waitFor()
  await eventually(async () => (await count("succeeded")) === 5)
  expect(await count("failed")).toBe(55)
  await page.getByRole("button", { name: "Go on with the other 55" }).click()
  await page.getByText("60 retried").waitFor()
  await eventually(async () => (await count("succeeded")) === 60)
})

test("a selection is the jobs that are seen, its commands name them, and one decision follows another", async () => {
  const board = await boardOf()
  const ids: Array<string> = []
  for (const n of [1, 2, 3]) ids.push(await board.ended("mailer.send", { to: `p${n}@acme.test` }))
  const page = await visit(board.url, "/jobs?state=failed")
  await page.getByRole("checkbox", { name: "Select all on this page" }).check()
  await page.getByText("3 selected").waitFor()
  // What has left the list is not meant any more.
  expect((await board.ask("DELETE", `/v1/jobs/${ids[0]}`)).status).toBeLessThan(300)
  await page.reload()
  await page.getByText("2 selected").waitFor()

  await page.keyboard.press("r")
  const dialog = page.getByRole("dialog")
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"])
  await dialog.getByRole("button", { name: "Copy as curl" }).click()
  await dialog.getByRole("button", { name: "Copied" }).waitFor()
  const other = await openTab(board.url, { context: page.context() })
  await other.goto(`${board.url}/healthz`)
  const copied = await other.evaluate(() => navigator.clipboard.readText())
  expect(copied.split("\n").toSorted()).toEqual(
    ids
      .slice(1)
      .map((id) => `curl -X POST '${board.url}/v1/jobs/${id}/retry'`)
      .toSorted(),
  )
  await other.close()
  await page.bringToFront()

  // The bar of the first decision is still there when the second one is made.
  await dialog.getByRole("button", { name: "Retry 2" }).click()
  await page.getByText("2 jobs will be retried in").waitFor()
  await page.getByRole("button", { name: "Undo" }).click()
  await page.getByText("Undone").waitFor()
  await page.keyboard.press("r")
  await dialog.getByRole("button", { name: "Retry 2" }).click()
  await page.getByText("2 jobs will be retried in").waitFor()
  await page.getByRole("button", { name: "Undo" }).click()
  await page.getByText("Undone").waitFor()
})

test("queues are paused, workers suspended, schedules run and paused, dead letters redriven", async () => {
  const board = await boardOf()
  await board.ended("mailer.send", { to: "ceo@acme.test" })
  const dead = await board.ended("work.reject")
  const page = await visit(board.url, "/queues")
  const mail = page.getByRole("row", { name: /mail/ })
  await mail.getByRole("button", { name: "Pause" }).click()
  await mail.getByRole("button", { name: "Resume" }).click()
  await mail.getByRole("button", { name: "Pause" }).waitFor()

  await page.getByRole("link", { name: "Workers" }).first().click()
  const worker = page.getByRole("row", { name: /wk-1/ })
  await worker.getByRole("button", { name: "Suspend" }).click()
  await worker.getByRole("button", { name: "Resume" }).click()
  await worker.getByRole("button", { name: "Suspend" }).waitFor()

  await page.getByRole("link", { name: "Schedules" }).first().click()
  const schedule = page.getByRole("row", { name: /work\.total/ }).first()
  await schedule.getByRole("button", { name: "work.total" }).click()
  await page.getByText("It has not run yet.").waitFor()
  expect(await page.getByText(/in \d+ [hd]/).count()).toBeGreaterThanOrEqual(5)
  await schedule.getByRole("button", { name: "Run now" }).click()
  await page.getByText("due").first().waitFor()
  await schedule.getByRole("button", { name: "Pause" }).click()
  await page.getByText("It is paused.").waitFor()
  await schedule.getByRole("button", { name: "Resume" }).click()

  await page.getByRole("link", { name: "Dead letters" }).first().click()
  await page.getByText("there is no caviar").first().waitFor()
  await page.getByRole("button", { name: "Redrive" }).first().click()
  await eventually(async () => (await board.ask("GET", `/v1/jobs/${dead}`)).body.run === 2)
})
