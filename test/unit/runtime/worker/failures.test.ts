/** How failures are reported to an application: handlers in a chain, and one log line. */
import type { ActorDefinition, ServeOptions } from "callboard"
import { describe, expect, test } from "vitest"
import { ownFrames } from "../../../../runtime/jobs/outcome/job-error.ts"
import { collectLog } from "../../../../runtime/testing/log.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start } from "../../../support/services.ts"
import { failing, isolated } from "./failing-actor.ts"

/** The lines of failed attempts, in a service that runs these actors. */
const linesOf = async (actors: ReadonlyArray<ActorDefinition>, options: ServeOptions = {}) => {
  const { log, lines } = collectLog()
  const service = await start(actors, { log, ...options })
  const failures = () => lines.filter(({ level, message }) => level === "warn" && / failed: /.test(message))
  return {
    lines,
    client: service.client,
    failures,
    first: () => eventually(() => failures()[0], { message: "the line" }),
  }
}

describe("failure handlers", () => {
  test("one that throws changes nothing: the next runs, and the job stays failed", async () => {
    const seen = Promise.withResolvers<string>()
    const { client } = await start([failing], {
      onFailure: [
        () => {
          throw new Error("handler")
        },
        ({ job }) => seen.resolve(job.state),
      ],
    })
    await client.submit("failing", { input: { password: "p", user: "u" } })
    expect(await seen.promise).toBe("failed")
  })

  test("one that answers false keeps the following ones from being called", async () => {
    const heard: Array<string> = []
    const last = Promise.withResolvers<void>()
    const { client } = await start([failing], {
      onFailure: [
        ({ job }) => {
          heard.push(`first ${job.id}`)
          return job.id === "a" ? false : undefined
        },
        ({ job }) => {
          heard.push(`second ${job.id}`)
          last.resolve()
        },
      ],
    })
    await (await client.submit("failing", { input: { user: "u" }, id: "a" })).outcome({ timeout: 60 })
    await client.submit("failing", { input: { user: "u" }, id: "b" })
    await last.promise
    expect(heard).toEqual(["first a", "first b", "second b"])
  })

  test("hear of each failed attempt, and whether another follows", async () => {
    const heard: Array<boolean> = []
    const { client } = await start([failing], { onFailure: [({ willRetry }) => void heard.push(willRetry)] })
    await (await client.submit("failing.twice")).outcome({ timeout: 60 })
    await eventually(() => heard.length === 2, { message: "both attempts are heard of" })
    expect(heard).toEqual([true, false])
  })
})

describe("the line of a failure", () => {
  test("carries task, method, id, queue, attempt and arguments, with what is to be hidden hidden", async () => {
    const { client, first } = await linesOf([failing])
    const job = await client.submit("failing", { input: { password: "p4ss", user: "ada", more: [{ password: 1 }] } })
    const { message, fields } = await first()
    expect(message).toBe("failing failed: RangeError: too far")
    expect(fields).toMatchObject({
      logger: "callboard.worker",
      job: job.id,
      task: "failing",
      method: "run",
      queue: "default",
      attempt: 1,
      reason: "handler",
    })
    expect(fields["arguments"]).toBe('{"password":"***","user":"ada","more":[{"password":"***"}]}')
  })

  test("shows nothing of the arguments where the method hides them all", async () => {
    const { client, lines, first } = await linesOf([failing])
    await client.submit("failing.secret", { input: { key: "value" } })
    expect((await first()).fields["arguments"]).toBe("***")
    expect(JSON.stringify(lines)).not.toContain("value")
  })

  test("hides positional arguments by their names", async () => {
    const { client, first } = await linesOf([failing])
    await client.submit("failing.named", { args: ["ada", "p4ss"] })
    expect((await first()).fields["arguments"]).toBe('{"args":["ada","***"],"kwargs":{}}')
  })

  test.each(["failing.checked", "isolated.checked"])(
    "hides as much of %s that failed before its handler, also what a schema quotes",
    async (task) => {
      const { client, lines, first } = await linesOf([failing, isolated])
      const job = await client.submit(task, { input: { password: "p4ss", user: "ada" } })
      const { message, fields } = await first()
      expect(message).toBe(`${task} failed: InvalidInput: password is not valid`)
      expect(fields).toMatchObject({
        job: job.id,
        task: task.split(".")[0],
        method: "checked",
        queue: "default",
        attempt: 1,
      })
      expect(fields["arguments"]).toBe('{"password":"***","user":"ada"}')
      expect(JSON.stringify(lines)).not.toContain("p4ss")
    },
  )

  test("hides the arguments of an unknown method", async () => {
    const { client, first } = await linesOf([failing], { unknownGrace: 0 })
    await client.submit("stranger.call", { input: { password: "p4ss" } })
    const { message, fields } = await first()
    expect(message).toMatch(/^stranger\.call failed: NotRegistered: /)
    expect(fields).toMatchObject({ task: "stranger", method: "call" })
    expect(fields["arguments"]).toBe("(hidden: this worker does not know the method)")
  })

  test("is that of an isolated method as well", async () => {
    const { client, first } = await linesOf([isolated])
    const job = await client.submit("isolated.run", { input: { password: "p4ss", user: "ada" } })
    const { message, fields } = await first()
    expect(message).toBe("isolated.run failed: RangeError: too far away")
    expect(fields).toMatchObject({ job: job.id, task: "isolated", method: "run", queue: "default", attempt: 1 })
    expect(fields["arguments"]).toBe('{"password":"***","user":"ada"}')
  })

  test("is written for each attempt", async () => {
    const { client, failures } = await linesOf([failing])
    await (await client.submit("failing.twice")).outcome({ timeout: 60 })
    await eventually(() => failures().length === 2, { message: "both lines" })
    expect(failures().map(({ fields }) => fields["attempt"])).toEqual([1, 2])
    expect(failures().map(({ message }) => message)).toEqual([
      expect.stringMatching(/^failing\.twice failed: Error: twice; the next attempt starts at \d{4}-/),
      "failing.twice failed: Error: twice",
    ])
  })

  test("is of bounded length, whatever the error and the arguments are", async () => {
    const { client, first } = await linesOf([failing])
    await client.submit("failing.huge", { input: { text: "x".repeat(1_000_000) } })
    const { message, fields } = await first()
    expect(message.length).toBeLessThan(1_500)
    expect(JSON.stringify(fields).length).toBeLessThan(2_500)
  })

  test("has no prototypes in it", async () => {
    const { client, first } = await linesOf([failing])
    await client.submit("failing.twice", { input: { a: { constructor: 2 } } })
    expect(String((await first()).fields["arguments"])).toContain('"constructor":2')
  })

  test.each(["failing.hostile", "isolated.hostile"])("of %s costs neither the job nor the worker", async (task) => {
    const { client } = await linesOf([failing, isolated])
    for (const [kind, name] of Object.entries({
      proxy: "Error",
      tag: "x".repeat(254),
      getters: "Error",
      cycle: "Error",
      big: "Error",
      class: "Error",
    })) {
      const outcome = await (await client.submit(task, { input: kind })).outcome({ timeout: 60 })
      expect(outcome, kind).toMatchObject({ state: "failed", error: { name: expect.stringContaining(name) } })
    }
  })
})

describe("the soft time limit", () => {
  test.each(["failing", "isolated"])(
    "that ends a handler of %s is told by its name, and can be retried",
    async (name) => {
      const { client, failures } = await linesOf([failing, isolated])
      const outcome = await (await client.submit(`${name}.soft`)).outcome({ timeout: 60 })
      expect(outcome).toMatchObject({
        state: "failed",
        error: {
          name: "SoftTimeLimitExceeded",
          reason: "timeout",
          message: "it exceeded its soft time limit of 0.1 s",
        },
      })
      await eventually(() => failures().length === 2, { message: "it was tried again" })
    },
  )

  test("as the cause of another error, too; another TimeoutError stays as it is", async () => {
    const { client } = await linesOf([failing])
    expect(await (await client.submit("failing.wrapped")).outcome({ timeout: 60 })).toMatchObject({
      error: { name: "SoftTimeLimitExceeded" },
    })
    expect(await (await client.submit("failing.external")).outcome({ timeout: 60 })).toMatchObject({
      error: { name: "TimeoutError", reason: "handler" },
    })
  })
})

describe("a traceback", () => {
  test.each(["failing", "failing.effect", "isolated"])("of %s is that of the application's own code", async (task) => {
    const { client } = await linesOf([failing, isolated])
    const outcome = await (await client.submit(task, { input: {} })).outcome({ timeout: 60 })
    const traceback = outcome.state === "failed" ? (outcome.error.traceback ?? "") : ""
    const frames = traceback.split("\n").filter((line) => /^\s+at /.test(line))
    expect(frames.length).toBeGreaterThan(0)
    for (const frame of frames) expect(frame).toMatch(/failures\.test\.ts|failing-actor\.ts/)
  })

  test("without a frame of the application stays as it is", () => {
    const stack = "Error: x\n    at f (/app/node_modules/effect/dist/a.js:1:1)\n    at native"
    expect(ownFrames(stack)).toBe(stack)
    expect(ownFrames(`${stack}\n    at mine (/app/a.ts:1:1)`)).toBe("Error: x\n    at mine (/app/a.ts:1:1)")
    expect(ownFrames("no stack at all")).toBe("no stack at all")
  })
})

describe("the lines of a job", () => {
  test.each(["failing", "isolated"])("of %s carry logger, task, method, id, queue and attempt", async (name) => {
    const { client, lines } = await linesOf([failing, isolated])
    const job = await client.submit(`${name}.speak`)
    await job.outcome({ timeout: 60 })
    const line = await eventually(() => lines.find(({ message }) => message === "hello"), { message: "the line" })
    expect(line.fields).toEqual({
      logger: "callboard.job",
      job: job.id,
      task: name,
      method: "speak",
      queue: "default",
      attempt: 1,
      x: 1,
    })
  })

  test("name actor and method alike, however the task was written", async () => {
    const { client, lines } = await linesOf([failing])
    await (await client.submit("failing.speak")).outcome({ timeout: 60 })
    await (await client.submit("failing", { meth: "speak" })).outcome({ timeout: 60 })
    const said = await eventually(() => {
      const found = lines.filter(({ message }) => message === "hello")
      return found.length === 2 ? found : undefined
    })
    for (const { fields } of said) expect(fields).toMatchObject({ task: "failing", method: "speak" })
  })

  test.each(["failing", "isolated"])("of %s are also what its Effects log", async (name) => {
    const { client, lines } = await linesOf([failing, isolated])
    const job = await client.submit(`${name}.say`)
    expect(await job.outcome({ timeout: 60 })).toEqual({ state: "succeeded", result: null })
    const line = await eventually(() => lines.find(({ message }) => message === "an effect"), { message: "the line" })
    expect(line).toMatchObject({
      level: "warn",
      fields: { logger: "callboard.job", job: job.id, method: "say", step: "first", values: [{ x: 1 }] },
    })
    expect(line.fields["took"]).toMatch(/^\d+ ms$/)
  })
})
