/**
 * How soon a first visit is seen and of use, on a phone over 4G: `npm run page:paint`. Medians of the times after the first
 * byte of the document, and what was loaded until then; to be read by people, since a busy machine makes them longer.
 */
import { type Browser, chromium } from "playwright-core"
import { startChromium } from "../support/servers/chromium.ts"
import { buildPage } from "../support/tools/page.ts"
import { openBoard } from "./board.ts"
import { fill } from "./scene.ts"
import { WIDTHS } from "./watching.ts"

/** As Chromium's own tools have them: what a request waits for its answer, in milliseconds, and bytes per second. */
const NETWORKS = {
  "fast 4G": { latency: 165, downloadThroughput: 1_012_500, uploadThroughput: 168_750 },
  "slow 4G": { latency: 562, downloadThroughput: 180_000, uploadThroughput: 84_375 },
} as const
/** How many times slower than this machine the phone is. */
const SLOWER = 4
const VISITS = 9

/** What a view shows once it has its data. */
const VIEWS = { "/": ".verdict .calm", "/jobs": ".list [data-row]" } as const

interface Visit {
  readonly painted: number
  readonly content: number
  readonly usable: number
  readonly requests: number
  readonly bytes: number
}

/** Runs in the browser before the page: notes when the data of the view is shown. */
const noteUsable = (shown: string) => {
  const look = () => {
    if (document.querySelector(shown) === null) return
    observer.disconnect()
    requestAnimationFrame(() => performance.mark("usable"))
  }
  const observer = new MutationObserver(look)
  observer.observe(document, { childList: true, subtree: true, attributes: true })
}

const visitOnce = async (
  browser: Browser,
  url: string,
  shown: string,
  network: keyof typeof NETWORKS,
): Promise<Visit> => {
  const context = await browser.newContext({ viewport: WIDTHS.phone, hasTouch: true })
  const page = await context.newPage()
  const session = await context.newCDPSession(page)
  await session.send("Network.enable")
  await session.send("Network.emulateNetworkConditions", { offline: false, ...NETWORKS[network] })
  await session.send("Emulation.setCPUThrottlingRate", { rate: SLOWER })
  await page.addInitScript(noteUsable, shown)
  await page.goto(url)
  await page.waitForFunction(() => performance.getEntriesByName("usable").length > 0)
  const visit = await page.evaluate(() => {
    const [navigation] = performance.getEntriesByType("navigation")
    if (!(navigation instanceof PerformanceNavigationTiming)) throw new Error("the browser tells no times")
    const at = (name: string) => performance.getEntriesByName(name)[0]?.startTime ?? Number.NaN
    const usable = at("usable")
    const loaded = performance
      .getEntriesByType("resource")
      .filter((each) => each instanceof PerformanceResourceTiming)
      .filter(({ responseEnd }) => responseEnd <= usable)
    return {
      painted: at("first-paint") - navigation.responseStart,
      content: at("first-contentful-paint") - navigation.responseStart,
      usable: usable - navigation.responseStart,
      requests: loaded.length + 1,
      bytes: loaded.reduce((sum, { transferSize }) => sum + transferSize, navigation.transferSize),
    }
  })
  await context.close()
  return visit
}

const median = (values: ReadonlyArray<number>): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN

await buildPage()
await using board = await openBoard()
await fill(board)
await using program = await startChromium()
const browser = await chromium.connectOverCDP(program.url)
for (const network of ["fast 4G", "slow 4G"] as const) {
  for (const [path, shown] of Object.entries(VIEWS)) {
    const visits: Array<Visit> = []
    for (let n = 0; n < VISITS; n++) visits.push(await visitOnce(browser, `${board.url}${path}`, shown, network))
    const of = (field: keyof Visit) => Math.round(median(visits.map((visit) => visit[field])))
    process.stdout.write(
      `${network}, ${path}: first paint ${of("painted")} ms, content ${of("content")} ms, usable ${of("usable")} ms, ${of("requests")} requests, ${of("bytes")} bytes\n`,
    )
  }
}
await browser.close()
