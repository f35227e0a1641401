/** Each view on a board with jobs, in both themes and both widths. */
import { afterAll, beforeAll, expect, test } from "vitest"
import { type Board, openBoard } from "./board.ts"
import { fill, type Scene } from "./scene.ts"
import { findings, visit } from "./shown.ts"
import { settled, THEMES, tooWide } from "./watching.ts"

let board: Board
let scene: Scene
beforeAll(async () => {
  board = await openBoard()
  scene = await fill(board)
})
afterAll(() => board[Symbol.asyncDispose]())

/** A text that each view must show. */
const SHOWN: Readonly<Record<string, RegExp>> = {
  overview: /Running/,
  jobs: /work\.hold/,
  "jobs-failed": /451 4\.7\.1/,
  job: /451 4\.7\.1/,
  "job-running": /Current activity/,
  "job-held": /Why it is not running/,
  errors: /SmtpRejected/,
  error: /451 4\.7\.1/,
  queues: /reports/,
  queue: /in the order in which workers take them/,
  workers: /wk-1/,
  worker: /Runs now/,
  schedules: /work\.total/,
  dead: /there is no caviar/,
}

for (const theme of THEMES) {
  for (const width of ["wide", "phone"] as const) {
    test(`the views, ${theme} and ${width}: what they show, and nothing for axe to find`, async () => {
      const page = await visit(board.url, "/", { theme, width })
      for (const [name, path] of Object.entries(scene.views)) {
        const text = SHOWN[name] ?? /there is no text for this view/
        await page.goto(`${board.url}${path}`)
        await settled(page)
        await page.getByText(text).first().waitFor()
        expect(await findings(page), path).toEqual([])
        expect(await tooWide(page), path).toEqual([])
      }
    })
  }
}

for (const theme of THEMES) {
  test(`dialogs and menus, ${theme}: nothing for axe to find`, async () => {
    const page = await visit(board.url, `/jobs/${scene.jobs.running}`, { theme })
    const look = async (name: string | RegExp, words: string): Promise<void> => {
      await page.getByRole("dialog", { name }).getByText(words).first().waitFor()
      expect(await findings(page), words).toEqual([])
      await page.keyboard.press("Escape")
      await page.getByRole("dialog").waitFor({ state: "detached" })
    }
    await page.getByRole("button", { name: "Cancel…" }).click()
    await look("Cancel work.hold?", "Kill it at once")
    await page.keyboard.press("/")
    await look("Go to", "Letters on")
    await page.goto(`${board.url}/jobs/${scene.jobs.failed}`)
    await page.getByRole("button", { name: "Delete…" }).click()
    await look("Delete mailer.send?", "Delete permanently")
    await page.goto(`${board.url}/jobs?state=failed`)
    await page.getByRole("button", { name: "Filter" }).click()
    await look("Filter", "Exactly")
    await page
      .getByLabel(/^Actions for job/)
      .first()
      .click()
    await page.getByRole("button", { name: "Copy the id" }).waitFor()
    expect(await findings(page), "menu").toEqual([])
    await page.keyboard.press("Escape")
    await page.getByRole("checkbox", { name: "Select all on this page" }).check()
    await page
      .getByRole("checkbox", { name: /^Select job/ })
      .first()
      .uncheck()
    expect(await findings(page), "selection").toEqual([])
    await page.getByRole("button", { name: /^Select all/ }).click()
    await page.getByRole("button", { name: "Retry…" }).click()
    await page.getByText("can be retried").waitFor()
    await page.getByText(/mailer\.send is still failing this way/).waitFor()
    await look(/^Retry .*jobs\?$/, "Starts in 8 seconds")
  })
}
