/** What people do on the page: watch a job, learn why it waits, retry failed jobs one by one and many at once. */
import { actor, Reject } from "callboard"
import { expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { ADMIN, boardOf, findings, openTab, READER, statuses, tokens, visit } from "./shown.ts"
import { settled, tooWide, WIDTHS } from "./watching.ts"

test("a new job is announced above the list, opened, and watched until it ends", async () => {
  const board = await boardOf()
  const page = await visit(board.url, "/jobs")
  await page.getByText("No jobs yet").waitFor()
  const id = await board.submit("work.hold")
  await page.getByRole("button", { name: "Show it" }).click()
  await page.getByRole("link", { name: "work.hold" }).click()
  await page.getByText("Current activity").waitFor()
  expect(new URL(page.url()).pathname).toBe(`/jobs/${id}`)
  board.release()
  await page.locator("h1").getByText("Succeeded").waitFor()
  await page.getByText('"released"').waitFor()
  await page.goBack()
  await page.getByRole("link", { name: "work.hold" }).waitFor()
})

test("the view of a job says why it waits, and offers the remedy", async () => {
  const board = await boardOf()
  await board.ask("POST", "/v1/queues/default/pause")
  const id = await board.submit("work.echo", { n: 1 })
  const page = await visit(board.url, `/jobs/${id}`)
  await page.getByText("Why it is not running").waitFor()
  await page.getByRole("button", { name: "Resume the queue" }).click()
  await page.locator("h1").getByText("Succeeded").waitFor()
})

test("the view of a queue limits how many of its jobs run at a time", async () => {
  const board = await boardOf()
  await board.submit("work.echo", { n: 1 })
  const page = await visit(board.url, "/queues/default", { expected: statuses(400) })
  const field = page.getByLabel("At a time, at most")
  const limit = async () => (await board.ask("GET", "/v1/queues")).body.queues[0].maxInFlight
  await field.fill("7")
  await page.getByRole("button", { name: "Limit" }).click()
  await page.getByText("Limit default: done").waitFor()
  expect(await limit()).toBe(7)
  await page.reload()
  await eventually(async () => (await field.inputValue()) === "7", { message: "it is shown" })
  await field.fill("many")
  await field.press("Enter")
  await page.getByText("maxInFlight: must be a whole number from 1 to 100000, or null").waitFor()
  expect(await limit()).toBe(7)
  await field.fill("")
  await field.press("Enter")
  await eventually(async () => (await limit()) === undefined, { message: "it is removed" })
})

test("the view of a failed job shows its error, and R retries the job", async () => {
  const board = await boardOf()
  const id = await board.ended("mailer.send", { to: "ceo@acme.test" })
  const page = await visit(board.url, `/jobs/${id}`)
  await page.locator("h1").getByText("Failed").waitFor()
  await page.getByText("SmtpRejected").first().waitFor()
  board.acceptMails(true)
  await page.keyboard.press("r")
  await page.locator("h1").getByText("Succeeded").waitFor()
})

test("a retry can be undone while the job waits, and is not undone once the job runs", async () => {
  const board = await boardOf()
  const id = await board.ended("mailer.send", { to: "ceo@acme.test" })
  await board.ask("POST", "/v1/queues/mail/pause")
  const page = await visit(board.url, `/jobs/${id}`, { expected: statuses(409) })
  await page.getByRole("button", { name: "Retry" }).click()
  await page.locator("h1").getByText("Queued").waitFor()
  await page.getByRole("button", { name: "Undo" }).click()
  await page.getByText("Undo: done").waitFor()
  await page.locator("h1").getByText("Cancelled").waitFor()

  const held = await board.submit("work.hold")
  await board.ask("POST", `/v1/jobs/${held}/cancel`)
  await page.goto(`${board.url}/jobs/${held}`)
  await page.getByRole("button", { name: "Retry" }).click()
  await board.reached(held, "started")
  await page.getByRole("button", { name: "Undo" }).click()
  await page.getByText("Undo: too late, the job has already started").waitFor()
  expect((await board.ask("GET", `/v1/jobs/${held}`)).body.state).toBe("started")
})

test("attempts show how long each backed off, waited and ran; a job of a chain is shown as such", async () => {
  const flaky = actor("flaky", {
    methods: {
      twice: {
        retry: { max: 2, interval: "200ms" },
        run: (_: unknown, job) => {
          if (job.attempt === 1) throw new Error("not yet")
          return job.attempt
        },
      },
    },
  })
  const board = await boardOf({ actors: [flaky] })
  const id = await board.ended("flaky.twice", {}, { chain: [{ task: "flaky.twice" }] })
  const page = await visit(board.url, `/jobs/${id}`)
  const attempts = page.getByRole("region", { name: "What happened" }).getByRole("listitem")
  await attempts.filter({ hasText: "Attempt 2" }).waitFor()
  expect(await attempts.first().textContent()).toMatch(/Attempt 1.*waited .* \+ ran /)
  expect(await attempts.nth(1).textContent()).toMatch(/Attempt 2.*backed off \d+ ms off \+ waited .* \+ ran /)
  await page.getByRole("region", { name: "Workflow" }).getByText("chain").waitFor()
})

test("durable steps are loaded when the reader opens them, and at once where some are still to be reverted", async () => {
  const trips = actor("trips", {
    methods: {
      book: {
        redact: ["card"],
        run: async ({ to }: { to: string }, job) => {
          await job.step("flight", () => ({ seat: "12A", card: "4111" }), { revert: () => undefined })
          const revert = () => {
            throw new Reject("the hotel keeps it")
          }
          await job.step("hotel", () => "x".repeat(300), { revert })
          const visa = ({ attempt }: { attempt: number }) => {
            if (attempt === 1 || to === "Atlantis") throw new TypeError("no such place")
          }
          await job.step("visa", visa, { retry: { max: 1, backoff: { base: 0 } } })
        },
      },
    },
  })
  const board = await boardOf({ actors: [trips] })
  const [rome, lost] = [
    await board.ended("trips.book", { to: "Rome" }),
    await board.ended("trips.book", { to: "Atlantis" }),
  ]
  const page = await openTab(board.url)
  const asked: Array<string> = []
  page.on("request", (request) => asked.push(new URL(request.url()).pathname))
  await page.goto(`${board.url}/jobs/${rome}`)
  await page.locator("h1").getByText("Succeeded").waitFor()
  await settled(page)
  expect(asked).not.toContain(`/v1/jobs/${rome}/steps`)
  const region = page.getByRole("region", { name: "Durable steps" })
  await region.getByRole("button", { name: "Show the durable steps" }).click()
  const items = region.getByRole("listitem")
  await items.filter({ hasText: /visa done, .*, 2 tries/ }).waitFor()
  expect(await items.count()).toBe(3)
  expect(await items.first().textContent()).toMatch(/flight done, .*\{"seat":"12A","card":"\*\*\*"\}/)
  expect(await findings(page)).toEqual([])
  expect(await tooWide(page)).toEqual([])
  await region.getByRole("button", { name: "Hide the durable steps" }).click()
  await items.first().waitFor({ state: "detached" })

  await page.setViewportSize(WIDTHS.phone)
  await page.goto(`${board.url}/jobs/${lost}`)
  await items.filter({ hasText: /hotel revert failed, .*: Reject the hotel keeps it/ }).waitFor()
  await items.filter({ hasText: /visa failed, .*, 2 tries: TypeError no such place/ }).waitFor()
  await region.getByText(/^Not reverted: flight, hotel\. Retry the job to continue reverting\.$/).waitFor()
  expect(await findings(page)).toEqual([])
  expect(await tooWide(page)).toEqual([])
})

test("the view of a job that waits says for what, since when and until when, and sends the signal", async () => {
  const orders = actor("orders", {
    methods: {
      approve: async (_: unknown, job) => {
        await job.step("reserve", () => "12A")
        return job.waitFor("approved", { timeout: "3 days" })
      },
    },
  })
  const board = await boardOf({ actors: [orders], http: { port: 0, tokens }, token: ADMIN })
  const id = await board.submit("orders.approve")
  await eventually(async () => (await board.ask("GET", `/v1/jobs/${id}`)).body.waits !== undefined)
  const reader = await visit(board.url, `/jobs/${id}`, { token: READER })
  await reader.locator("h1").getByText("Scheduled, waiting").waitFor()
  expect(await reader.getByRole("button", { name: "Send the signal…" }).isDisabled()).toBe(true)
  await reader.getByText("Your token needs the scope submit for this").waitFor()

  const page = await visit(board.url, `/jobs/${id}`, { token: ADMIN })
  const steps = page.getByRole("region", { name: "Durable steps" }).getByRole("listitem")
  await steps.filter({ hasText: /reserve done/ }).waitFor()
  await steps.filter({ hasText: /approved waiting for the signal approved until .*\d/ }).waitFor()
  expect(await page.getByRole("button", { name: "Run now" }).isDisabled()).toBe(true)
  await page.getByRole("region", { name: "What happened" }).getByText("Attempt 1").first().waitFor()
  expect(await page.getByText("Worker lost").count()).toBe(0)
  await page.getByRole("button", { name: "Send the signal…" }).click()
  const dialog = page.getByRole("dialog")
  const value = dialog.getByLabel("Value, as JSON")
  await value.fill("{by: Ada}")
  await dialog.getByText("This is not JSON").waitFor()
  expect(await dialog.getByRole("button", { name: "Send approved" }).isDisabled()).toBe(true)
  expect(await findings(page)).toEqual([])
  expect(await tooWide(page)).toEqual([])
  await value.fill('{"by": "Ada"}')
  await dialog.getByRole("button", { name: "Send approved" }).click()
  await page.getByText(/^Signal approved to .*: done$/).waitFor()
  await page.locator("h1").getByText("Succeeded").waitFor()
  expect((await board.ask("GET", `/v1/jobs/${id}`)).body.result).toEqual({ by: "Ada" })
})

test("dead letters are grouped by their reason, and all of one reason are redriven at once", async () => {
  const board = await boardOf()
  const rejected = [await board.ended("work.reject"), await board.ended("work.reject")]
  const page = await visit(board.url, "/dead")
  const row = page.getByRole("row", { name: /rejected.*rejected it permanently/ })
  await row.getByRole("link", { name: "rejected" }).click()
  await page.getByRole("link", { name: "All reasons" }).waitFor()
  expect(new URL(page.url()).search).toBe("?reason=rejected")
  await row.getByRole("button", { name: "Redrive all…" }).click()
  const dialog = page.getByRole("dialog")
  await dialog.getByText("can be redriven").waitFor()
  await dialog.getByRole("button", { name: "Redrive 2" }).click()
  await page.getByText("2 redriven").waitFor()
  for (const id of rejected) await eventually(async () => (await board.ask("GET", `/v1/jobs/${id}`)).body.run === 2)
})

test("on the way back to a list of dead letters or schedules, and after a reload, the same page is shown", async () => {
  const board = await boardOf()
  const jobs = Array.from({ length: 51 }, () => ({ task: "work.reject" }))
  await board.ask("POST", "/v1/jobs", jobs)
  await eventually(async () => (await board.ask("GET", "/v1/count?state=failed")).body.count === 51)
  const page = await visit(board.url, "/dead")
  const letters = page.getByRole("region", { name: "Newest" }).getByRole("row", { name: /there is no caviar/ })
  const isLast = () => eventually(async () => (await letters.count()) === 1)
  await page.getByRole("button", { name: "Older" }).click()
  await isLast()
  await letters.getByRole("link").click()
  await page.locator("h1").getByText("Dead").waitFor()
  await page.goBack()
  await isLast()
  await page.reload()
  await isLast()
  await page.getByRole("button", { name: "Newer" }).click()
  await eventually(async () => (await letters.count()) === 50)
  // Another reason has pages of its own.
  await page.getByRole("button", { name: "Older" }).click()
  await isLast()
  await page.getByRole("link", { name: "rejected" }).click()
  await eventually(async () => (await letters.count()) === 50)
})

test("a running job is cancelled after a dialog asked for it, and the cancellation is undone", async () => {
  const board = await boardOf()
  const id = await board.submit("work.hold")
  await board.reached(id, "started")
  const page = await visit(board.url, `/jobs/${id}`)
  await page.getByRole("button", { name: "Cancel…" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click()
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

test("a bulk retry takes all jobs that match, tries a few of them first, and can be undone before it begins", async () => {
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

  board.acceptMails(true)
  await page.reload()
  await begin()
  await page.getByText("5 tried first").waitFor()
  await eventually(async () => (await count("succeeded")) === 5)
  expect(await count("failed")).toBe(55)
  await page.getByRole("button", { name: "Continue with the other 55" }).click()
  await page.getByText("60 retried").waitFor()
  await eventually(async () => (await count("succeeded")) === 60)
})

test("a job that fails while the dialog about a bulk retry is open is not retried by it", async () => {
  const board = await boardOf()
  const before = await board.ended("mailer.send", { to: "ops@acme.test" })
  await board.ended("mailer.send", { to: "lab@acme.test" })
  const page = await visit(board.url, "/jobs?state=failed&task=mailer.send")
  await page.getByRole("checkbox", { name: "Select all on this page" }).check()
  await page
    .getByRole("checkbox", { name: /^Select job/ })
    .first()
    .uncheck()
  await page.getByRole("button", { name: /^Select all .*that match$/ }).click()
  await page.getByRole("button", { name: "Retry…" }).click()
  const dialog = page.getByRole("dialog")
  await dialog.getByText("can be retried").waitFor()
  const later = await board.ended("mailer.send", { to: "hr@acme.test" })
  board.acceptMails(true)
  await dialog.getByRole("button", { name: "Retry 2" }).click()
  await page.getByText("2 retried").waitFor()
  await board.reached(before, "succeeded")
  expect((await board.ask("GET", `/v1/jobs/${later}`)).body).toMatchObject({ state: "failed", run: 1 })
})

test("a selection has only jobs on the page, its commands name them, and a second action can follow the first", async () => {
  const board = await boardOf()
  const ids: Array<string> = []
  for (const n of [1, 2, 3]) ids.push(await board.ended("mailer.send", { to: `p${n}@acme.test` }))
  const page = await visit(board.url, "/jobs?state=failed")
  await page.getByRole("checkbox", { name: "Select all on this page" }).check()
  await page.getByText("3 selected").waitFor()
  // A job that has left the list is no longer selected.
  expect((await board.ask("DELETE", `/v1/jobs/${ids[0]}`)).status).toBeLessThan(300)
  await page.reload()
  await page.getByText("2 selected").waitFor()

  await page.keyboard.press("r")
  const dialog = page.getByRole("dialog")
  // What would be done is tried before it is decided.
  await dialog.getByText("can be retried").waitFor()
  await dialog.getByText("Of the task mailer.send").waitFor()
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"])
  await dialog.getByRole("button", { name: "Copy as curl" }).click()
  await dialog.getByRole("button", { name: "Copied" }).waitFor()
  const other = await openTab(board.url, { context: page.context() })
  await other.goto(`${board.url}/healthz`)
  const copied = await other.evaluate(() => navigator.clipboard.readText())
  // The newest job is the first one of the list.
  const named = ids.slice(1).toReversed().join("%2C")
  expect(copied).toBe(`curl -X POST '${board.url}/v1/jobs/retry?ids=${named}'`)
  await other.close()
  await page.bringToFront()

  // The second action begins while the bar of the first one is still shown.
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
  await page.getByRole("button", { name: "Redrive", exact: true }).first().click()
  await eventually(async () => (await board.ask("GET", `/v1/jobs/${dead}`)).body.run === 2)
})
