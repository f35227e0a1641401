/**
 * Log lines: one line per entry whatever its fields are, colours and levels by option, and the application's own log.
 */
import { readFileSync } from "node:fs"
import { hostLog, type LogSink } from "callboard"
import { afterEach, describe, expect, test, vi } from "vitest"
import type { LogFormat } from "../../../../runtime/log/choices.ts"
import { type LogSettings, makeLog } from "../../../../runtime/log/log.ts"
import { loggable } from "../../../../runtime/log/log-value.ts"
import { spawnScript, temporaryFolder } from "../../../support/servers/process.ts"

afterEach(() => void vi.restoreAllMocks())

/** The text of each call of the console. */
const written = (settings: LogSettings, write: (log: ReturnType<typeof makeLog>) => void): ReadonlyArray<string> => {
  const lines: Array<string> = []
  vi.spyOn(console, "log").mockImplementation((...parts: ReadonlyArray<unknown>) => void lines.push(parts.join(" ")))
  write(makeLog(settings))
  return lines
}

const cycle: { self?: unknown; name: string } = { name: "cycle" }
cycle.self = cycle
const revoked = Proxy.revocable({}, {})
revoked.revoke()

const trap = () => {
  throw new Error("trap")
}

const HOSTILE: ReadonlyArray<readonly [what: string, message: string, fields: Readonly<Record<string, unknown>>]> = [
  [
    "lines",
    'one\r\ntimestamp=now level=ERROR message="forged"\n{"level":"ERROR"}',
    { text: "a\nb\u2028c\u2029d\u0085e" },
  ],
  [
    "escapes",
    "\u001b[2J\u001b]0;title\u0007",
    { text: "\u001b[31mred", c1: "\u009b31m", "\u001b[1mkey\n": "\u0000\u007f" },
  ],
  ["places to fill in", "100 %s %c %o", { "%s": "%d", "%c": "color: red" }],
  ["its own names", "hidden", { message: "other", level: "other", timestamp: 0, logger: "x" }],
  ["prototypes", "m", JSON.parse('{"__proto__": {"polluted": 1}, "constructor": {"prototype": 1}, "toString": "x"}')],
  ["cycles and big numbers", "m", { cycle, big: 10n ** 30n, nan: Number.NaN, symbol: Symbol("s"), call: trap }],
  [
    "getters that throw",
    "m",
    {
      inner: {
        get trap() {
          return trap()
        },
      },
      json: { toJSON: trap },
    },
  ],
  [
    "a getter that throws at the top",
    "m",
    {
      get trap() {
        return trap()
      },
      seen: 1,
    },
  ],
  ["proxies that refuse", "m", { revoked: revoked.proxy, keys: new Proxy({}, { ownKeys: trap }) }],
  ["errors", "m", { cause: new Error("with\nlines"), odd: Object.assign(new Error("x"), { stack: 5 }) }],
  [
    "containers",
    "m",
    { map: new Map([[{}, cycle]]), set: new Set([1]), bytes: new Uint8Array(9), date: new Date(Number.NaN) },
  ],
  ["lone surrogates", "\ud800", { text: "\udfff" }],
]

// biome-ignore lint/suspicious/noControlCharactersInRegex: what must not be in a line
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/

describe.each<LogFormat>(["logfmt", "json"])("%s has one line per entry", (format) => {
  test.each(HOSTILE)("with %s", (_what, message, fields) => {
    const lines = written({ format, color: "always" }, (log) =>
      log.with({ logger: "callboard.test" }).warn(message, fields),
    )
    expect(lines).toHaveLength(1)
    expect(lines[0]).not.toMatch(CONTROL)
    if (format === "json") expect(JSON.parse(lines[0] ?? "")).toMatchObject({ message, level: "WARN" })
  })

  test("of bounded length", () => {
    const [line = ""] = written({ format }, (log) =>
      log.info("m".repeat(2 ** 20), {
        text: "x".repeat(2 ** 20),
        list: Array.from({ length: 100_000 }, () => ({ a: [] })),
        map: Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`key ${at}`, at])),
        deep: Array.from({ length: 10_000 }).reduce((inner) => [inner], 1),
      }),
    )
    expect(line.length).toBeGreaterThan(16_000)
    expect(line.length).toBeLessThan(60_000)
  })
})

test.each(HOSTILE)(
  "pretty lets nobody write to the terminal, nor forge an entry, with %s",
  (_what, message, fields) => {
    const lines = written({ format: "pretty", color: "never" }, (log) => log.warn(message, fields))
    expect(lines[0]).toMatch(/^\[[\d:.]+\] WARN /)
    const rows = lines.slice(1).flatMap((line) => line.split("\n").map((row, at) => [row, at] as const))
    for (const [row, at] of rows) {
      expect(row).not.toMatch(CONTROL)
      expect(row).toMatch(at === 0 ? /^[^[]/ : /^ {2}/)
    }
  },
)

test("what a line may hold is a copy, in which nothing is run twice or changed", () => {
  const copy = loggable(
    { a: 1, skipped: undefined, list: [undefined, { b: 2n }], hidden: "secret" },
    {
      hide: (key) => (key === "hidden" ? "***" : undefined),
    },
  )
  expect(JSON.stringify(copy)).toBe('{"a":1,"list":[null,{"b":"2"}],"hidden":"***"}')
  expect(Reflect.get({}, "polluted")).toBeUndefined()
})

describe("colours", () => {
  const hasEscapes = (settings: LogSettings) =>
    written(settings, (log) => log.error("m", { field: 1 })).some((line) => line.includes("\u001b["))

  test("are of pretty alone, and by option", () => {
    expect(hasEscapes({ format: "pretty", color: "always" })).toBe(true)
    expect(hasEscapes({ format: "pretty", color: "never" })).toBe(false)
    expect(hasEscapes({ format: "logfmt", color: "always" })).toBe(false)
    expect(hasEscapes({ format: "json", color: "always" })).toBe(false)
  })
})

describe("levels", () => {
  test("are those of the logger's name, of the beginning of its name, or of all", () => {
    const settings: LogSettings = {
      format: "logfmt",
      level: "info",
      levels: { callboard: "warn", "callboard.job": "debug", "callboard.http": "none" },
    }
    const lines = written(settings, (log) => {
      for (const logger of ["callboard.job", "callboard.worker", "callboard.http", "callboards", "constructor"]) {
        for (const level of ["debug", "info", "error"] as const) log.with({ logger })[level](`${logger}:${level}`)
      }
    })
    expect(lines.map((line) => /message=(\S+)/.exec(line)?.[1])).toEqual([
      "callboard.job:debug",
      "callboard.job:info",
      "callboard.job:error",
      "callboard.worker:error",
      "callboards:info",
      "callboards:error",
      "constructor:info",
      "constructor:error",
    ])
  })
})

describe("a host's log", () => {
  class Sink implements LogSink {
    readonly lines: Array<readonly [string, string, Readonly<Record<string, unknown>>]> = []
    debug(message: string, fields: Readonly<Record<string, unknown>>) {
      this.lines.push(["debug", message, fields])
    }
    info(message: string, fields: Readonly<Record<string, unknown>>) {
      this.lines.push(["info", message, fields])
    }
    warn(message: string, fields: Readonly<Record<string, unknown>>) {
      this.lines.push(["warn", message, JSON.parse(JSON.stringify(fields))])
    }
    error(): void {
      throw new Error("the disk is full")
    }
  }

  test("gets message and fields, from info on", () => {
    const sink = new Sink()
    const log = hostLog(sink)
    const named = log.with({ logger: "a", job: 1 }).with({ job: 2 })
    named.debug("not wanted")
    named.info("hello", { x: 1 })
    expect(sink.lines).toEqual([["info", "hello", { logger: "a", job: 2, x: 1 }]])
    expect(log.level).toBe("info")
  })

  test("says itself which levels it wants; ours narrow that", () => {
    const sink = Object.assign(new Sink(), { enabled: (level: string) => level !== "info" })
    const log = hostLog(sink, { levels: { quiet: "warn" } })
    log.debug("d")
    log.info("i")
    log.with({ logger: "quiet" }).debug("q")
    expect(sink.lines.map(([, message]) => message)).toEqual(["d"])
    expect(log.level).toBe("debug")
    expect(hostLog(sink, { level: "none" }).level).toBe("none")
  })

  test("that throws fails nothing, and gets what it could not take once more as JSON", () => {
    const sink = new Sink()
    hostLog(sink).error("lost")
    hostLog(sink).warn("kept", { cycle, big: 1n })
    expect(sink.lines).toEqual([["warn", "kept", { cycle: { name: "cycle", self: "(itself)" }, big: "1" }]])
  })

  test("may be the console", () => {
    const lines: Array<unknown> = []
    vi.spyOn(console, "info").mockImplementation((...parts: ReadonlyArray<unknown>) => void lines.push(parts))
    hostLog(console).info("hello", { x: 1 })
    expect(lines).toEqual([["hello", { x: 1 }]])
  })
})

const script = new URL("./log-service.ts", import.meta.url).pathname

describe("a service", () => {
  test("with the host's log writes nothing to standard output or error, not even its last word", async () => {
    using folder = temporaryFolder()
    const file = `${folder.path}/log`
    await using service = spawnScript(script, ["host", `sqlite:${folder.path}/board.db`, file], { cwd: folder.path })
    expect(await service.closed).toMatchObject({ signal: "SIGKILL" })
    expect(service.stdout).toBe("")
    expect(service.stderr).toBe("")
    const lines = readFileSync(file, "utf8")
    for (const logger of ["service", "worker", "http", "job"]) expect(lines).toContain(`"logger":"callboard.${logger}"`)
    expect(lines).toMatch(/an uncaught error ends a process of isolated handlers.*boom/)
    for (const line of lines.trim().split("\n")) expect(JSON.parse(line).logger).toMatch(/^callboard\./)
  })

  test("else writes lines of one form, also the last word of one that is blocked", async () => {
    using folder = temporaryFolder()
    await using service = spawnScript(script, ["json", `sqlite:${folder.path}/board.db`], { cwd: folder.path })
    expect(await service.closed).toMatchObject({ signal: "SIGKILL" })
    expect(service.stderr).toBe("")
    const lines: ReadonlyArray<{ message: string; annotations: object }> = service.stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line))
    expect(lines.every((line) => "logger" in line.annotations)).toBe(true)
    expect(lines.at(-1)?.message).toMatch(/a handler blocks this worker past its hard time limit/)
  })
})
