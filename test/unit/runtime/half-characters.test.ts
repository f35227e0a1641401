/** What is cut of a job is cut between characters, wherever the cut falls. */
import { actor } from "callboard"
import { runActor } from "callboard/testing"
import { expect, test } from "vitest"

const long = (before: string) => before + "💥".repeat(20_000)

const named = (name: string) => Object.assign(new Error("named"), { name })

const halves = actor("halves", {
  methods: {
    message: (text: string) => {
      throw new Error(text)
    },
    name: (text: string) => {
      throw named(text)
    },
    cause: (text: string) => {
      throw new Error("outer", { cause: new Error(text) })
    },
    parts: (text: string) => {
      throw new AggregateError([new Error(text)], text)
    },
    text: (text: string) => {
      throw text
    },
    retried: {
      run: (text: string) => {
        throw new Error(text)
      },
      retry: { max: 1, interval: 0 },
    },
    progress: async (text: string, job) => {
      job.progress(0.5, { text })
      throw new Error("after it")
    },
    step: (text: string, job) =>
      job.step("one", () => {
        throw new Error(text)
      }),
  },
})

/** Where a value holds half a character, also as a key. */
const halvesIn = (value: unknown, place = ""): ReadonlyArray<string> => {
  if (typeof value === "string") return value.isWellFormed() ? [] : [place]
  if (typeof value !== "object" || value === null) return []
  return Object.entries(value).flatMap(([key, each]) => [
    ...halvesIn(key, `${place}.(key)`),
    ...halvesIn(each, `${place}.${key}`),
  ])
}

test.each(["message", "name", "cause", "parts", "text", "retried", "progress", "step"])(
  "%s: no half of a character is kept",
  async (method) => {
    await using worker = await runActor(halves)
    for (const text of [long(""), long("x")]) {
      const job = await worker.client.submit(`halves.${method}`, { input: text })
      expect(await job.outcome({ timeout: 20 })).toMatchObject({ state: "failed" })
      expect(halvesIn(await job.find())).toEqual([])
    }
  },
)

test("half a character that a handler throws becomes U+FFFD", async () => {
  await using worker = await runActor(halves)
  for (const method of ["message", "name", "cause", "text"]) {
    const job = await worker.client.submit(`halves.${method}`, { input: "a\ud83d" })
    await job.outcome({ timeout: 20 })
    const { error } = await job.find()
    expect(halvesIn(error)).toEqual([])
    expect(JSON.stringify(error)).toContain("a\ufffd")
  }
})
