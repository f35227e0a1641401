/** All by keys: through a list, into a job and back, to anywhere, and never into a trap. */
import { expect, test } from "vitest"
import { boardOf, visit } from "./shown.ts"

test("a list is walked, a job opened and left by keys; a search leads anywhere", async () => {
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
  // From job to job of the list.
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
  // Letters are letters in a field.
  await search()
  await page.keyboard.type("jkr/")
  expect(await page.getByRole("combobox").inputValue()).toBe("jkr/")
  await page.keyboard.press("Escape")
  await page.getByRole("combobox").waitFor({ state: "detached" })
})

test("tabbing begins with the way past the navigation, shows where it is, and comes around", async () => {
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
