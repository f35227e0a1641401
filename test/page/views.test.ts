/** Each view with the work of a board in it. */
import { expect, test } from "vitest"
import { boardOf } from "./board.ts"
import { visit } from "./shown.ts"

test("the overview says how many jobs there are", async () => {
  const board = await boardOf()
  await board.submit("work.hold")
  const page = await visit(board.url, "/")
  await page.getByText("Running").waitFor()
  expect(await page.title()).toContain("Overview")
})
