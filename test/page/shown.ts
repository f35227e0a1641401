/**
 * Opens pages of a service in the browser. A test fails when the browser reports a fault: a violation of the policy, an error or
 * warning on the console, an error that was not caught, a dialog, a request to another origin.
 */
import axe from "axe-core"
import type { Token } from "callboard"
import type { BrowserContext, Page } from "playwright-core"
import { expect, onTestFinished } from "vitest"
import { type Board, type BoardOptions, openBoard } from "./board.ts"
import { connectChromium } from "./chromium.ts"
import { settled, type THEMES, WIDTHS } from "./watching.ts"

export interface VisitOptions {
  readonly width?: keyof typeof WIDTHS
  readonly theme?: (typeof THEMES)[number]
  /** A token that is put into the fragment of the address, as in the link that `callboard dev` prints. */
  readonly token?: string
  /** Reports of the browser that do not fail the test, such as an answer's status that the test brings about. */
  readonly expected?: ReadonlyArray<RegExp>
  /** The time zone of the browser. Defaults to `Europe/Berlin`, which is not UTC. */
  readonly zone?: string
  /** The browser context of an open page, for a second tab in it. Defaults to a new context. */
  readonly context?: BrowserContext
}

/** Ignored in every test: the browser reports permissions that it does not know, and which it knows differs between systems. */
const EVERYWHERE = [/^console: Error with Permissions-Policy header: Unrecognized feature/]

/** Runs in the browser, before all scripts of the page. */
const reportViolations = () =>
  document.addEventListener("securitypolicyviolation", (event) =>
    console.error(`policy violation: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`),
  )

/** Opens an empty tab. When the test is over it fails if the browser has reported a fault in this tab. */
export const openTab = async (origin: string, options: VisitOptions = {}): Promise<Page> => {
  const { width = "wide", theme = "light", expected = [], zone = "Europe/Berlin" } = options
  const browser = await connectChromium()
  const context =
    options.context ??
    (await browser.newContext({
      viewport: WIDTHS[width],
      colorScheme: theme,
      hasTouch: width === "phone",
      timezoneId: zone,
      locale: "en-US",
      reducedMotion: "reduce",
    }))
  const page = await context.newPage()
  // As long as other waits of tests: a busy machine is slow, and a long limit costs nothing where nothing fails.
  page.setDefaultTimeout(60_000)
  const wrong = new Set<string>()
  const note = (text: string) => {
    if (![...EVERYWHERE, ...expected].some((each) => each.test(text))) wrong.add(text)
  }
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") note(`console: ${message.text()}`)
  })
  page.on("pageerror", (error) => note(`thrown: ${error.message}`))
  page.on("dialog", (dialog) => {
    note(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on("request", (request) => {
    const url = request.url()
    if (new URL(url).origin !== origin && !/^(about|blob|data):/.test(url)) note(`request to another origin: ${url}`)
  })
  await page.addInitScript(reportViolations)
  onTestFinished(async () => {
    if (options.context === undefined) await context.close()
    expect([...wrong], "what the browser found wrong").toEqual([])
  })
  return page
}

/** Opens a view of a service, and waits until its data is shown. */
export const visit = async (url: string, path: string, options: VisitOptions = {}): Promise<Page> => {
  const page = await openTab(new URL(url).origin, options)
  await page.goto(`${url}${path}${options.token === undefined ? "" : `#token=${options.token}`}`)
  await settled(page)
  return page
}

const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

/** The violations that axe finds in the shown view: a line for each element. */
export const findings = async (page: Page): Promise<ReadonlyArray<string>> => {
  const isThere = await page.evaluate(() => "axe" in globalThis)
  if (!isThere) await page.evaluate(axe.source)
  return page.evaluate(async (tags) => {
    const { violations } = await (globalThis as unknown as { axe: typeof axe }).axe.run(document, {
      runOnly: { type: "tag", values: tags },
      resultTypes: ["violations"],
    })
    return violations.flatMap(({ id, nodes }) =>
      nodes.map(
        ({ target, failureSummary }) => `${id}: ${target.join(" ")}: ${failureSummary?.replaceAll(/\s+/g, " ")}`,
      ),
    )
  }, TAGS)
}

export const READER = "reader-0123456789abcdef"
export const ADMIN = "admin-0123456789abcdef"
/** The tokens of a board that requires one. */
export const tokens: ReadonlyArray<Token> = [
  { name: "on-call", token: ADMIN, scopes: ["admin"] },
  { name: "looks", token: READER, scopes: ["read"] },
]

/** Patterns of the console's messages about answers with these statuses. */
export const statuses = (...codes: ReadonlyArray<number>): ReadonlyArray<RegExp> =>
  codes.map((code) => new RegExp(`^console: Failed to load resource: the server responded with a status of ${code} `))

/** Starts a board that is stopped at the end of the test. */
export const boardOf = async (options?: BoardOptions): Promise<Board> => {
  const board = await openBoard(options)
  onTestFinished(() => board[Symbol.asyncDispose]())
  return board
}
