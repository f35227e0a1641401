/**
 * A busy board: rows, focus, selection and dialogs stay in place while jobs change, and neither the memory of the page nor its
 * load grows. `CALLBOARD_TEST_LIVE=60` lets it run for 60 seconds, and prints memory and load.
 */
import type { Page } from "playwright-core"
import { expect, test } from "vitest"
import { boardOf, visit } from "./shown.ts"

const SECONDS = Number(process.env["CALLBOARD_TEST_LIVE"] ?? 3)

/** Each job changes three times: it is queued, started, and has ended. */
const BATCH = 50
const EVERY_MS = 150

/** Most bytes by which the memory of the page may grow. A page that kept the lists of a minute would grow by more. */
const MAX_GROWTH = 1024 * 1024
/** The page is meant to need a tenth of a core; a slow machine may be four times as slow. */
const MAX_BUSY = 0.4

/** Measures the memory of the page after a garbage collection, in bytes, and the processor time of its thread, in seconds. */
const loadOf = async (page: Page): Promise<() => Promise<{ readonly heap: number; readonly cpu: number }>> => {
  const session = await page.context().newCDPSession(page)
  await session.send("Performance.enable", { timeDomain: "threadTicks" })
  return async () => {
    await session.send("HeapProfiler.collectGarbage")
    const { metrics } = await session.send("Performance.getMetrics")
    const of = (name: string): number => metrics.find((each) => each.name === name)?.value ?? Number.NaN
    return { heap: of("JSHeapUsedSize"), cpu: of("TaskDuration") }
  }
}

test("a thousand changes a second move no row that the reader looks at", {
  timeout: 300_000 + SECONDS * 4_000,
}, async () => {
  const board = await boardOf()
  for (let n = 0; n < 60; n++) await board.submit("work.echo", { n })
  const held = await board.submit("work.hold")
  await board.reached(held, "started")
  const page = await visit(board.url, "/jobs")
  await page.getByRole("link", { name: "work.hold" }).waitFor()
  await page.evaluate(() => {
    const row = document.querySelectorAll("tbody tr")[25]
    const link = row?.querySelector<HTMLElement>("a[data-row]")
    link?.scrollIntoView({ block: "center" })
    link?.focus({ preventScroll: true })
    for (const each of document.querySelectorAll("tbody tr")) each.setAttribute("data-marked", "")
    const text = row?.querySelector(".id")
    if (text === null || text === undefined) throw new Error("there is no such row")
    getSelection()?.selectAllChildren(text)
  })
  await page
    .getByRole("checkbox", { name: /Select job/ })
    .nth(3)
    .check()
  const look = () =>
    page.evaluate(() => ({
      y: scrollY,
      rows: [...document.querySelectorAll("tbody tr .id")].map((each) => each.textContent),
      marked: document.querySelectorAll("tbody tr[data-marked]").length,
      selection: getSelection()?.toString(),
      checked: document.querySelectorAll("tbody input:checked").length,
      focused: document.activeElement?.outerHTML.slice(0, 200),
    }))
  const before = await look()
  expect(before.rows).toHaveLength(50)
  expect(before.selection).toHaveLength(8)

  let sent = 0
  const storm = async (seconds: number): Promise<void> => {
    const tasks = Array.from({ length: BATCH }, (_, n) => ({ task: "work.echo", input: { n } }))
    const end = performance.now() + seconds * 1000
    // On a slow machine this takes longer, so that there are always more newer jobs than a page has rows.
    while (performance.now() < end || sent < 2 * BATCH) {
      const began = performance.now()
      await board.ask("POST", "/v1/jobs", tasks)
      sent += BATCH
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, EVERY_MS - (performance.now() - began))))
    }
  }
  const measure = await loadOf(page)
  await storm(1)
  await page.getByText(/newer jobs match/).waitFor()
  const [first, began] = [await measure(), performance.now()]
  await storm(SECONDS)
  const [last, took] = [await measure(), (performance.now() - began) / 1000]
  expect(await look()).toEqual(before)
  expect(last.heap - first.heap, "bytes that were kept").toBeLessThan(MAX_GROWTH)
  expect((last.cpu - first.cpu) / took, "part of a core").toBeLessThan(MAX_BUSY)
  if (SECONDS > 3) {
    const kib = ({ heap }: { readonly heap: number }): string => `${Math.round(heap / 1024)} KiB`
    const busy = (100 * (last.cpu - first.cpu)) / took
    process.stdout.write(`${sent} jobs, heap ${kib(first)} to ${kib(last)}, ${busy.toFixed(1)} % of a core\n`)
  }

  // An open dialog stays open.
  await page.getByRole("button", { name: "Retry…" }).click()
  const dialog = page.getByRole("dialog")
  await dialog.waitFor()
  await storm(1)
  expect(await dialog.isVisible()).toBe(true)
  await dialog.getByRole("button", { name: "Close" }).click()

  // A job that changes is updated in its row.
  const row = page.getByRole("row", { name: /work\.hold/ })
  board.release()
  await row.getByRole("img", { name: "Succeeded" }).waitFor()
  expect((await look()).rows).toEqual(before.rows)
  // The newer jobs are shown on request.
  await page.getByText(/newer jobs match|or more newer/).click()
  await page.getByText(/newer jobs match/).waitFor({ state: "detached" })
  expect((await look()).rows).not.toEqual(before.rows)
})

test("rows are neither added nor removed while the pointer is on their list, and are once it has left", async () => {
  const board = await boardOf()
  await board.ended("work.reject")
  const page = await visit(board.url, "/dead")
  const letters = page.getByRole("region", { name: "Newest" }).getByRole("row", { name: /there is no caviar/ })
  await letters.first().waitFor()
  await letters.first().hover()
  await board.ended("work.reject")
  const request = await page.waitForRequest((each) => each.url().includes("/v1/dead?limit=50"))
  await request.response()
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))))
  expect(await letters.count()).toBe(1)
  await page.mouse.move(1, 1)
  await expect.poll(() => letters.count()).toBe(2)
})
