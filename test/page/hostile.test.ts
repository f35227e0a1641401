/** Whatever a job, a queue, a schedule or a worker is called: it is shown as the text that it is, and does nothing. */
import { actor } from "callboard"
import type { Page } from "playwright-core"
import { expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { boardOf, findings, visit } from "./shown.ts"
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
/** What cannot be seen, or changes how the rest is seen. */
const HIDDEN = "safe\u202egnp.exe\u2066\u200b\u0007\u001b[31m\u00ad\ufeff"
const SHOWN = "safe\\u202egnp.exe\\u2066\\u200b\\u0007\\u001b[31m\\u00ad\\ufeff"
const LONG = `${"<b>x</b>".repeat(131_072)}end`

/** Runs in the browser: what of the data became more than text. */
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
    const more = { meta: { [text]: text, hidden: HIDDEN }, description: text, group: text, headers: { "x-note": text } }
    jobs.push(await board.ended("hostile.fail", { text, password: text }, more))
  }
  jobs.push(await board.ended("hostile.give", { text: CORPUS[0] }))
  const long = await board.ended("hostile.fail", { text: LONG.slice(0, 900_000) })
  const held = await board.submit("hostile.hold", {}, { description: HIDDEN })
  await board.reached(held, "started")
  // The name of a queue, and an id, may hold less than other texts: what they may not is refused at the door.
  const queue = "a:b@c..__proto__"
  await board.submit("hostile.fail", { text: "x" }, { queue })
  // Ids of the submitter's choice.
  const named = await board.submit("hostile.fail", { text: "x" }, { id: "__proto__", queue })
  await eventually(async () => (await board.ask("GET", "/v1/queues")).body.queues.length >= 2)

  // Some of these are ids of no job.
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
  // A text without end does not make the page slow.
  await page.goto(`${board.url}/jobs/${long}`)
  await settled(page)
  expect(await page.evaluate(() => document.body.innerText.length)).toBeLessThan(200_000)
})
