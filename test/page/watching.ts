/** How pages are looked at. Without Vitest, because pictures are made by a command of their own. */
import type { Page } from "playwright-core"

export const WIDTHS = { wide: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } } as const
export const THEMES = ["light", "dark"] as const

/** Waits until nothing that is shown waits for its data. */
export const settled = async (page: Page): Promise<void> => {
  await page.waitForFunction(
    () => document.querySelector("main h1") !== null && document.querySelector("[aria-busy=true]") === null,
  )
  // What takes less than a moment shows no sign that it is waited for.
  await page.waitForLoadState("networkidle").catch(() => undefined)
}

/** What reaches beyond the right edge of the page, so that it would have to be scrolled sideways. */
export const tooWide = (page: Page): Promise<ReadonlyArray<string>> =>
  page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement
    if (scrollWidth <= clientWidth) return []
    return [...document.querySelectorAll("body *")]
      .filter((each) => each.getBoundingClientRect().right > clientWidth + 1)
      .map((each) => `${each.parentElement?.className} > ${each.tagName}.${each.className}`)
      .slice(0, 8)
  })
