/**
 * Names, ids and other texts of jobs, queues and workers that try to be markup, scripts or invisible: the page shows them as text.
 * And clocks that are wrong: the page shows no negative time.
 */
import { actor } from "callboard"
import type { Page } from "playwright-core"
import { expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { boardOf, findings, openTab, visit } from "./shown.ts"
import { settled, tooWide } from "./watching.ts"

const CORPUS = [
  "<img src=x onerror=alert(1)>",
  `'"><script>alert(2)</script>`,
  "</title></style></script><svg onload=alert(3)>",
  "javascript:alert(4)",
  "{{constructor.constructor('alert(5)')()}}",
  "$\u007balert(6)}",
  "&lt;b&gt;&amp;",
  "data:text/html,<script>alert(7)</script>",
  "__proto__",
  "%3Cscript%3Ealert(8)%3C/script%3E",
]
/** Text with characters that are invisible, control a terminal, or change the direction of the text after them. */
const HIDDEN = "safe\u202egnp.exe\u2066\u200b\u0007\u001b[31m\u00ad\ufeff"
const SHOWN = "safe\\u202egnp.exe\\u2066\\u200b\\u0007\\u001b[31m\\u00ad\\ufeff"
const LONG = `${"<b>x</b>".repeat(131_072)}end`

/** Runs in the browser. Lists elements and links that data has become, and hidden characters that are in the page's text. */
const lookAround = (hidden: string) => {
  const attributes = [...document.querySelectorAll("[title], [aria-label]")].map(
    (each) => `${each.getAttribute("title")} ${each.getAttribute("aria-label")}`,
  )
  const seen = [document.title, document.documentElement.innerText, ...attributes].join(" ")
  return {
    elements: document.querySelectorAll("script:not([src]), img, iframe, object, embed, [onerror], [onload], b > b")
      .length,
    links: [...document.links].filter(({ protocol }) => protocol !== "http:").map(({ href }) => href),
    hidden: [...hidden].filter((character) => seen.includes(character)),
  }
}

const INVISIBLE = "\u202e\u2066\u200b\u0007\u001b\u00ad\ufeff"

const harmless = async (page: Page): Promise<void> => {
  expect(await page.evaluate(lookAround, INVISIBLE)).toEqual({ elements: 0, links: [], hidden: [] })
}

test("every field is text: names, ids, queues, errors, meta, results, workers", async () => {
  class Evil extends Error {
    override readonly name = CORPUS[0] ?? ""
  }
  const hostile = actor("hostile", {
    methods: {
      fail: ({ text }: { text: string }) => {
        throw new Evil(text)
      },
      give: ({ text }: { text: string }) => ({ [text]: text, hidden: HIDDEN, n: 2 ** 60 }),
      hold: async (_: unknown, job) => {
        job.progress(0.5, { [CORPUS[1] ?? ""]: HIDDEN })
        await new Promise<void>((resolve) => job.signal.addEventListener("abort", () => resolve()))
      },
    },
  })
  const board = await boardOf({ actors: [hostile], name: `${CORPUS[0]} ${HIDDEN}`, queues: ["default"] })
  const jobs: Array<string> = []
  for (const text of [...CORPUS, HIDDEN]) {
    // The key `__proto__` itself is refused.
    const more = {
      meta: { [`${text}.`]: text, hidden: HIDDEN },
      description: text,
      group: text,
      headers: { "x-note": text },
    }
    jobs.push(await board.ended("hostile.fail", { text, password: text }, more))
  }
  jobs.push(await board.ended("hostile.give", { text: CORPUS[0] }))
  const long = await board.ended("hostile.fail", { text: LONG.slice(0, 900_000) })
  const held = await board.submit("hostile.hold", {}, { description: HIDDEN })
  await board.reached(held, "started")
  // Names of queues, and ids, allow fewer characters than other texts; the service refuses all others.
  const queue = "a:b@c..__proto__"
  await board.submit("hostile.fail", { text: "x" }, { queue })
  // A submitter may choose the id of a job.
  const named = await board.submit("hostile.fail", { text: "x" }, { id: "__proto__", queue })
  await eventually(async () => (await board.ask("GET", "/v1/queues")).body.queues.length >= 2)

  // Some of the paths name jobs that do not exist.
  const expected = [/^console: Failed to load resource: the server responded with a status of 404/]
  const page = await visit(board.url, "/", { expected })
  const paths = [
    "/queues",
    `/queues/${encodeURIComponent(queue)}`,
    "/workers",
    `/workers/${encodeURIComponent(`${CORPUS[0]} ${HIDDEN}`)}`,
    "/dead",
    "/jobs?state=failed",
    `/jobs?task=${encodeURIComponent(CORPUS[1] ?? "")}`,
    ...[...jobs, long, held, named].map((id) => `/jobs/${encodeURIComponent(id)}`),
    ...CORPUS.map((text) => `/jobs/${encodeURIComponent(text)}`),
  ]
  for (const path of paths) {
    await page.goto(`${board.url}${path}`)
    await settled(page)
    await harmless(page)
    expect(await tooWide(page), path).toEqual([])
  }
  await page.goto(`${board.url}/workers`)
  await page.getByText(SHOWN).first().waitFor()
  await page.goto(`${board.url}/jobs/${encodeURIComponent(jobs.at(-2) ?? "")}`)
  await settled(page)
  expect(await findings(page)).toEqual([])
  // Of a very long text the page shows a part only.
  await page.goto(`${board.url}/jobs/${long}`)
  await settled(page)
  expect(await page.evaluate(() => document.body.innerText.length)).toBeLessThan(200_000)
})

const HOUR_MS = 3_600_000

/** A copy of an answer whose times of a worker's clock are moved by `ms`. */
const offBy = (ms: number, value: unknown): unknown => {
  if (Array.isArray(value)) return value.map((each) => offBy(ms, each))
  if (typeof value !== "object" || value === null) return value
  const isOff = (name: string, each: unknown): each is string =>
    typeof each === "string" && ["started", "startedAt", "ended", "deadline", "heartbeatAt"].includes(name)
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [
      name,
      isOff(name, each) ? new Date(Date.parse(each) + ms).toISOString() : offBy(ms, each),
    ]),
  )
}

test.each([HOUR_MS, -HOUR_MS])(
  "with a worker's clock that is off by %i ms no shown time is negative or invalid",
  async (ms) => {
    const board = await boardOf()
    const held = await board.submit("work.hold")
    await board.reached(held, "started")
    const done = await board.ended("work.echo")
    const page = await openTab(board.url)
    await page.route("**/v1/**", async (route) => {
      const answer = await route.fetch()
      if (answer.status() !== 200) return route.fulfill({ response: answer })
      await route.fulfill({ response: answer, json: offBy(ms, await answer.json()) })
    })
    for (const path of ["/", "/jobs", `/jobs/${held}`, `/jobs/${done}`, "/workers", "/workers/wk-1"]) {
      await page.goto(`${board.url}${path}`)
      await settled(page)
      const text = await page.locator("main").innerText()
      expect(text, path).not.toMatch(/(?:^|[\s(])[-\u2212]\d|NaN|Invalid|undefined|Infinity/)
      expect(text.length, path).toBeGreaterThan(50)
    }
  },
)

test("a browser's clock that is an hour off changes no shown time, since the page uses the clock of the service", async () => {
  const board = await boardOf()
  const id = await board.ended("work.echo")
  for (const ms of [HOUR_MS, -HOUR_MS]) {
    const page = await openTab(board.url)
    await page.addInitScript((off) => {
      const now = Date.now
      Date.now = () => now() + off
    }, ms)
    await page.goto(`${board.url}/jobs/${id}`)
    await settled(page)
    await page.locator("h1").getByText("Succeeded").waitFor()
    await expect.poll(() => page.locator(".meta").innerText()).toMatch(/submitted [\d:]+, (just now|\d+ s ago)/)
    await page.close()
  }
})
