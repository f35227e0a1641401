/** Each view with the work of a board in it. */
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

/** What each view must show. */
const SHOWN: Readonly<Record<string, RegExp>> = {
  overview: /Running/,
  jobs: /work\.hold/,
  "jobs-failed": /451 4\.7\.1/,
  job: /451 4\.7\.1/,
  "job-running": /What it does now/,
  "job-held": /Why it does not run/,
  errors: /SmtpRejected/,
  queues: /reports/,
  queue: /in the order in which they will be taken/,
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
