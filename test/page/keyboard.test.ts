/** The page without a pointer: its shortcuts, and the way of the focus with Tab. */
import { expect, test } from "vitest"
import { boardOf, visit } from "./shown.ts"

test("J and K move through a list, Enter opens a job, Escape leaves it; a search leads to jobs and views", async () => {
  const board = await boardOf()
  const ids: Array<string> = []
  for (let n = 0; n < 3; n++) ids.push(await board.ended("work.echo", { n }))
  const page = await visit(board.url, "/jobs")
  await page
    .getByRole("row", { name: /work\.echo/ })
    .first()
    .waitFor()
  const focused = () => page.evaluate(() => document.activeElement?.getAttribute("href"))
  await page.keyboard.press("j")
  expect(await focused()).toBe(`/jobs/${ids[2]}`)
  await page.keyboard.press("j")
  await page.keyboard.press("j")
  expect(await focused()).toBe(`/jobs/${ids[0]}`)
  await page.keyboard.press("k")
  await page.keyboard.press("Enter")
  await page.waitForURL(`**/jobs/${ids[1]}`)
  await page.locator("h1").getByText("Succeeded").waitFor()
  // In the view of a job J leads to the next job of the list.
  await page.keyboard.press("j")
  await page.waitForURL(`**/jobs/${ids[0]}`)
  await page.keyboard.press("Escape")
  await page.waitForURL("**/jobs")

  const search = async () => {
    await page.keyboard.press("/")
    await page.getByRole("combobox").and(page.locator(":focus")).waitFor()
  }
  await search()
  await page.keyboard.type(ids[2] ?? "")
  await page.keyboard.press("Enter")
  await page.waitForURL(`**/jobs/${ids[2]}`)
  await search()
  await page.keyboard.type("dead")
  await page.keyboard.press("Enter")
  await page.waitForURL("**/dead")
  // In a field the letters of shortcuts are text.
  await search()
  await page.keyboard.type("jkr/")
  expect(await page.getByRole("combobox").inputValue()).toBe("jkr/")
  await page.keyboard.press("Escape")
  await page.getByRole("combobox").waitFor({ state: "detached" })
})

test("Tab begins with the link past the navigation, always shows the focus, and reaches the end of the page", async () => {
  const board = await boardOf()
  await board.ended("mailer.send", { to: "ceo@acme.test" })
  for (const path of ["/", "/jobs", "/queues", "/schedules"]) {
    const page = await visit(board.url, path)
    await page.locator("main h1").waitFor()
    await page.keyboard.press("Tab")
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Skip to content")
    await page.keyboard.press("Enter")
    expect(await page.evaluate(() => document.activeElement?.id)).toBe("main")
    const unseen: Array<string> = []
    let steps = 0
    for (; steps < 80; steps++) {
      await page.keyboard.press("Tab")
      const at = await page.evaluate(() => {
        const element = document.activeElement
        if (element === null || element === document.body) return undefined
        const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element)
        const { width, height, top } = element.getBoundingClientRect()
        const isSeen = (outlineStyle !== "none" && outlineWidth !== "0px") || boxShadow !== "none"
        return { isSeen: isSeen && width > 0 && height > 0 && top >= -1, words: element.outerHTML.slice(0, 120) }
      })
      if (at === undefined) break
      if (!at.isSeen) unseen.push(at.words)
    }
    expect(unseen, `focus is seen on ${path}`).toEqual([])
    expect(steps, `the way through ${path} ends`).toBeLessThan(80)
    await page.close()
  }
})
