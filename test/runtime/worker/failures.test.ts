/** What an application hears of failures: handlers in a chain, and one line of log. */
import { actor, type Log } from "callboard"
import { describe, expect, test } from "vitest"
import { eventually } from "../../servers/process.ts"
import { start } from "./services.ts"

const failing = actor("failing", {
  methods: {
    run: {
      redact: ["password"],
      run: (_input: { password: string; user: string }) => {
        throw new RangeError("too far")
      },
    },
    secret: {
      redact: true,
      run: () => {
        throw new Error("hidden")
      },
    },
    twice: {
      retry: { max: 1, backoff: { base: 0.01 } },
      run: () => {
        throw new Error("twice")
      },
    },
  },
})

interface Line {
  readonly level: string
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
}

const recordingLog = (lines: Array<Line>, carried: Readonly<Record<string, unknown>> = {}): Log => {
  const write =
    (level: string) =>
    (message: string, fields: Readonly<Record<string, unknown>> = {}) => {
      lines.push({ level, message, fields: { ...carried, ...fields } })
    }
  return {
    level: "debug",
    enabled: () => true,
    debug: write("debug"),
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    with: (fields) => recordingLog(lines, { ...carried, ...fields }),
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

  test("hear of each failed attempt, and whether another follows", async () => {
    const heard: Array<boolean> = []
    const { client } = await start([failing], { onFailure: [({ willRetry }) => void heard.push(willRetry)] })
    await (await client.submit("failing.twice")).outcome({ timeout: 5 })
    await eventually(() => heard.length === 2, { message: "both attempts are heard of" })
    expect(heard).toEqual([true, false])
  })
})

describe("the line of a failure", () => {
  test("carries task, id, queue, attempt and arguments, with what is to be hidden hidden", async () => {
    const lines: Array<Line> = []
    const { client } = await start([failing], { log: recordingLog(lines) })
    const job = await client.submit("failing", { input: { password: "p4ss", user: "ada" } })
    await job.outcome({ timeout: 5 })
    const line = await eventually(() => lines.find((candidate) => candidate.level === "warn"), { message: "the line" })
    expect(line.message).toBe("failing failed: RangeError: too far")
    expect(line.fields).toMatchObject({
      logger: "callboard.worker",
      job: job.id,
      task: "failing",
      queue: "default",
      attempt: 1,
    })
    expect(line.fields.arguments).toBe('{"password":"***","user":"ada"}')
  })

  test("shows nothing of the arguments where the method hides them all", async () => {
    const lines: Array<Line> = []
    const { client } = await start([failing], { log: recordingLog(lines) })
    await (await client.submit("failing.secret", { input: { key: "value" } })).outcome({ timeout: 5 })
    await eventually(() => lines.length > 0, { message: "the line" })
    expect(JSON.stringify(lines)).not.toContain("value")
  })
})
