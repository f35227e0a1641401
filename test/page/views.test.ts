/** Each view with the work of a board in it. */
import { afterAll, beforeAll, expect, test } from "vitest"
import { type Board, openBoard } from "./board.ts"
import { findings, settled, THEMES, visit, WIDTHS } from "./shown.ts"

let board: Board
beforeAll(async () => {
  board = await openBoard()
  const held = await board.submit("work.hold")
  await board.reached(held, "started")
  await board.ended("mailer.send", { to: "billing@acme.test" })
  await board.ended("work.echo", { n: 1 })
  await board.submit("work.echo", {}, { delay: "1h" })
  await board.ask("POST", "/v1/queues/reports/pause")
  await board.submit("work.echo", {}, { queue: "reports" })
  await board.submit("imports.rows", { tenant: "acme" })
  await board.submit("imports.rows", { tenant: "acme" })
})
afterAll(() => board[Symbol.asyncDispose]())

/** The views, with what each must show. */
const VIEWS: ReadonlyArray<readonly [path: string, text: RegExp]> = [
  ["/", /Running/],
  ["/queues", /reports/],
  ["/queues/reports", /in the order in which they will be taken/],
  ["/workers", /wk-1/],
  ["/workers/wk-1", /Runs now/],
  ["/schedules", /work\.total/],
  ["/dead", /Nothing was given up/],
]

for (const theme of THEMES) {
  for (const width of ["wide", "phone"] as const) {
    test(`the views, ${theme} and ${width}: what they show, and nothing for axe to find`, async () => {
      const page = await visit(board.url, "/", { theme, width })
      for (const [path, text] of VIEWS) {
        await page.goto(`${board.url}${path}`)
        await settled(page)
        await page.getByText(text).first().waitFor()
        expect(await findings(page), path).toEqual([])
        const { scrollWidth, innerWidth } = await page.evaluate(() => ({
          scrollWidth: document.documentElement.scrollWidth,
          innerWidth: window.innerWidth,
        }))
        expect(scrollWidth, `${path} is no wider than ${WIDTHS[width].width}`).toBeLessThanOrEqual(innerWidth)
      }
    })
  }
}
