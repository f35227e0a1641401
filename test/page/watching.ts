/** Helpers that look at pages. They do not use Vitest, because the command that takes pictures uses them as well. */
import type { Page } from "playwright-core"

export const WIDTHS = { wide: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } } as const
export const THEMES = ["light", "dark"] as const

/** Waits until all parts of the view show their data. */
export const settled = async (page: Page): Promise<void> => {
  await page.waitForFunction(
    () => document.querySelector("main h1") !== null && document.querySelector("[aria-busy=true]") === null,
  )
  // A part shows a placeholder only when its request takes a while, so the requests themselves are awaited as well.
  await page.waitForLoadState("networkidle").catch(() => undefined)
}

/** Elements that reach beyond the right edge of the page, so that it would scroll sideways; the first eight. */
export const tooWide = (page: Page): Promise<ReadonlyArray<string>> =>
  page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement
    if (scrollWidth <= clientWidth) return []
    return [...document.querySelectorAll("body *")]
      .filter((each) => each.getBoundingClientRect().right > clientWidth + 1)
      .map((each) => `${each.parentElement?.className} > ${each.tagName}.${each.className}`)
      .slice(0, 8)
  })
