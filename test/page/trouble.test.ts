/** A board in trouble: what the page says of it is true, and fits the narrowest phones. */
import { actor } from "callboard"
import { expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { boardOf, visit } from "./shown.ts"
import { settled, tooWide, WIDTHS } from "./watching.ts"

test("of a queue that no worker takes from it says so, and not that it keeps up", async () => {
  const board = await boardOf()
  await board.submit("work.echo", {}, { queue: "nobody" })
  // The trend of a queue is told once it has been watched for a while.
  await eventually(
    async () => {
      const { queues } = (await board.ask("GET", "/v1/queues")).body
      return queues.some((each: { name: string; trend?: string }) => each.name === "nobody" && each.trend === "steady")
    },
    { message: "the queue has no trend" },
  )
  const page = await visit(board.url, "/queues")
  const row = page.getByRole("row", { name: /nobody/ })
  await row.getByText("no worker consumes it").waitFor()
  await page.goto(`${board.url}/queues/nobody`)
  await page.locator(".meta").getByText("no worker consumes it").waitFor()
})

test("the job that waits for its second attempt has run in one", async () => {
  const flaky = actor("flaky", {
    methods: {
      fail: {
        retry: { max: 3, interval: 3600 },
        run: async () => {
          await new Promise((resolve) => setTimeout(resolve, 5))
          throw new Error("not yet")
        },
      },
    },
  })
  const board = await boardOf({ actors: [flaky] })
  const id = await board.submit("flaky.fail")
  await eventually(async () => (await board.ask("GET", `/v1/jobs/${id}`)).body.error !== undefined)
  const page = await visit(board.url, `/jobs/${id}`)
  const facts = page.getByRole("complementary", { name: "Facts" })
  await facts.getByText("Ran", { exact: true }).waitFor()
  expect(await facts.innerText()).toMatch(/Ran\s+[\d.]+ m?s\s*\n/)
})

test("a job that its limit holds back has no countdown, since nobody knows when the others end", async () => {
  const board = await boardOf()
  const first = await board.submit("imports.rows", { tenant: "acme" })
  await board.reached(first, "started")
  const held = await board.submit("imports.rows", { tenant: "acme" })
  await eventually(async () => {
    const { causes } = (await board.ask("GET", `/v1/jobs/${held}/why`)).body
    return causes[0]?.code === "tenant-limit"
  })
  const page = await visit(board.url, `/jobs/${held}`)
  await page.getByText("waiting for the limit of its tenant").waitFor()
  expect(await page.getByRole("timer").count()).toBe(0)
})

test("of what has ended the overview says that workers ended it, since they alone count it", async () => {
  const board = await boardOf()
  await board.ask("POST", `/v1/jobs/${await board.submit("work.echo", {}, { delay: "1h" })}/cancel`)
  const page = await visit(board.url, "/")
  await page.getByText("Ended at workers in the last hour").waitFor()
  await page.getByRole("heading", { name: "Ended at workers per minute" }).waitFor()
})

test("the overview shows a task that waits in its worker as waiting, and not as running", async () => {
  const board = await boardOf()
  const first = await board.submit("imports.rows", { tenant: "acme" })
  await board.reached(first, "started")
  await board.submit("imports.rows", { tenant: "acme" })
  const page = await visit(board.url, "/")
  const now = page.getByRole("region", { name: "Jobs now" })
  const running = now.getByRole("link", { name: /^Running/ })
  // Both are in the hands of the worker, and one has a handler.
  await running.getByText("1", { exact: true }).waitFor()
  await running.getByText("1 of 8 handlers busy").waitFor()
  await now
    .getByRole("link", { name: /^Queued/ })
    .getByText("1", { exact: true })
    .waitFor()
})

test("where not all scheduled jobs were looked at, the overview does not say how many of them retry", async () => {
  const flaky = actor("flaky", {
    methods: {
      fail: {
        retry: { max: 3, interval: 3600 },
        run: () => {
          throw new Error("not yet")
        },
      },
    },
  })
  const board = await boardOf({ actors: [flaky] })
  await board.submit("flaky.fail")
  await eventually(async () => (await board.ask("GET", "/v1/count?state=scheduled")).body.count === 1)
  const page = await visit(board.url, "/")
  const scheduled = page.getByRole("region", { name: "Jobs now" }).getByRole("link", { name: /^Scheduled/ })
  await scheduled.getByText("1 retrying").waitFor()
  await board.ask(
    "POST",
    "/v1/jobs",
    Array.from({ length: 250 }, () => ({ task: "flaky.fail", delay: "1h" })),
  )
  await scheduled.getByText("251", { exact: true }).waitFor()
  // Those that are slow to count are counted every 15 seconds.
  await eventually(async () => !/^\d+ of them/m.test(await scheduled.innerText()), { deadline: 40_000 })
})

test("each reason of a dead letter is told with what to do about it", async () => {
  const saga = actor("saga", {
    methods: {
      book: {
        retry: false,
        run: async (_: unknown, job) => {
          await job.step("flight", () => 1, {
            revert: () => {
              throw new Error("no refund")
            },
          })
          throw new Error("no visa")
        },
      },
      member: {
        retry: false,
        run: () => {
          throw new Error("no")
        },
      },
      body: () => 1,
    },
  })
  const board = await boardOf({ actors: [saga] })
  await board.ended("saga.body", {}, { chord: [{ task: "saga.member" }] })
  const booked = await board.submit("saga.book")
  await board.reached(booked, "failed")
  const page = await visit(board.url, "/dead")
  await page.getByText("A member of its group did not succeed").waitFor()
  await page.getByText("A step could not be reverted").waitFor()
  expect(await page.getByText("See its error.").count()).toBe(0)
})

test("one of something is not called many", async () => {
  const board = await boardOf()
  const running = await board.submit("work.hold")
  await board.reached(running, "started")
  await board.submit("work.echo", {}, { after: [running] })
  const page = await visit(board.url, "/jobs?state=deferred")
  await page.getByText("waiting for 1 other job", { exact: true }).waitFor()

  await board.ended("work.reject")
  await page.goto(`${board.url}/dead`)
  await page.getByRole("heading", { name: "1 dead letter", exact: true }).waitFor({ timeout: 25_000 })
  await board.ask("POST", "/v1/queues/reports/pause")
  await board.submit("work.echo", {}, { queue: "reports" })
  await page.goto(`${board.url}/queues/reports`)
  await page.locator(".meta").getByText("1 waits").waitFor()
  const [{ fingerprint }] = await eventually(async () => {
    const { errors } = (await board.ask("GET", "/v1/errors")).body
    return errors.length > 0 && errors
  })
  await page.goto(`${board.url}/errors/${fingerprint}`)
  await page
    .getByText("1 attempt failed: 0 jobs failed for this reason, 0 are being retried, 1 was dead-lettered.")
    .waitFor()
  await board.submit("imports.rows", { tenant: "acme" })
  await page.goto(`${board.url}/queues`)
  await page.getByText("1 runs, 1 key", { exact: true }).waitFor()
})

test("from a later page of causes and of a limit's keys there is a way back, and filters begin anew", async () => {
  const letters = [..."ghijklmn"]
  const words = letters.flatMap((one) => letters.map((other) => `${one}${other}`))
  const odd = actor("odd", {
    methods: {
      fail: {
        retry: false,
        limit: { rate: "1/h", key: ({ word }: { word: string }) => word },
        run: ({ word }: { word: string }) => {
          throw new Error(`there is no ${word}`)
        },
      },
    },
  })
  const board = await boardOf({ actors: [odd] })
  await board.ask(
    "POST",
    "/v1/jobs",
    words.map((word) => ({ task: "odd.fail", input: { word } })),
  )
  await eventually(async () => (await board.ask("GET", "/v1/errors?limit=60")).body.errors.length === 60)
  const page = await visit(board.url, "/errors?task=odd.fail")
  await eventually(async () => (await page.title()).startsWith("more than 50 Errors"))
  await page.getByRole("link", { name: "More" }).click()
  await page.waitForURL(/cursor=/)
  await page.getByRole("link", { name: "First" }).click()
  await page.waitForURL((url) => !url.searchParams.has("cursor"))
  await page.getByRole("link", { name: "More" }).click()
  await page.waitForURL(/cursor=/)
  await page.getByRole("link", { name: "Remove the filter task" }).click()
  await page.waitForURL((url) => url.search === "")
  await page.getByRole("link", { name: "More" }).click()
  await page.waitForURL(/cursor=/)
  await page.getByRole("button", { name: "24 h" }).click()
  await page.waitForURL((url) => url.search === "?range=24h")

  await page.goto(`${board.url}/queues`)
  const limits = page.getByRole("region", { name: "Limits" })
  await limits.getByText("odd.fail").click()
  await limits.getByText("gg", { exact: true }).waitFor()
  await limits.getByRole("button", { name: "After" }).click()
  await limits.getByText("ik", { exact: true }).waitFor()
  await limits.getByRole("button", { name: "Before" }).click()
  await limits.getByText("gg", { exact: true }).waitFor()
})

test("on a wide page no tab of a state is cut off", async () => {
  const board = await boardOf()
  const page = await visit(board.url, "/jobs")
  const tabs = page.getByRole("navigation", { name: "State" })
  await tabs.getByRole("link", { name: "Dead 0" }).waitFor()
  expect(await tabs.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)).toBe(0)
})

test("the moment of a schedule that runs once is told in the zone of all other times", async () => {
  const board = await boardOf({ actors: [] })
  const schedule = { task: "work.echo", input: {} }
  await board.ask("POST", "/v1/schedules", { ...schedule, name: "eve", at: "2099-12-24T18:00:00+01:00" })
  await board.ask("POST", "/v1/schedules", { ...schedule, name: "bare", at: "2099-12-24T18:00:00" })
  const page = await visit(board.url, "/schedules")
  await page.getByText("once, at 2099-12-24 17:00:00").waitFor()
  await page.getByText("once, at 2099-12-24 18:00:00").waitFor()
  await page.getByTitle(/^Times are in UTC/).click()
  await page.getByText("once, at 2099-12-24 18:00:00").waitFor()
  await page.getByText("once, at 2099-12-24 19:00:00").waitFor()
  expect(await page.getByText("Recurring").count()).toBe(0)
})

test.each(["UTC", "America/Argentina/ComodRivadavia"])(
  "at 360 pixels no view scrolls sideways, and no button of the header is cut off, with times in %s",
  async (zone) => {
    const board = await boardOf()
    const page = await visit(board.url, "/", { width: "phone", zone })
    await page.setViewportSize({ ...WIDTHS.phone, width: 360 })
    if (zone !== "UTC") await page.getByTitle(/^Times are in UTC/).click()
    for (const path of ["/", "/jobs", "/errors", "/queues", "/workers", "/schedules", "/dead"]) {
      await page.goto(`${board.url}${path}`)
      await settled(page)
      expect(await tooWide(page), path).toEqual([])
      for (const button of await page.locator(".top button:visible").all()) {
        const box = await button.boundingBox()
        expect(box?.width, `${path}: ${await button.innerText()}`).toBeGreaterThanOrEqual(34)
      }
    }
  },
)

test("of a result that is one long text its beginning is shown, and that it is not all", async () => {
  const board = await boardOf()
  const id = await board.ended("work.echo", { text: `begin ${"x".repeat(100_000)}` })
  const page = await visit(board.url, `/jobs/${id}`)
  const result = page.getByRole("region", { name: "Result" })
  await result.getByText("begin xxx").waitFor()
  await result.getByText("Only the first 64 KiB are shown").waitFor()
})
