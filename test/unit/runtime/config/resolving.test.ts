/** Settings: which source wins, which values are refused, and what the messages advise. */
import { Command } from "commander"
import { describe, expect, test } from "vitest"
import { addSettings, givenSettings } from "../../../../runtime/cli/invocation.ts"
import { resolveConfig, type Sources } from "../../../../runtime/config/resolving.ts"
import { SETTINGS } from "../../../../runtime/config/settings.ts"

const file = (value: unknown) => ({ name: "callboard.config.ts", value })
const flags = (given: Record<string, string>) =>
  new Map(Object.entries(given).map(([path, text]) => [path, { flag: `--${path}`, text }]))

const refusal = (sources: Sources): string => {
  try {
    resolveConfig(sources)
  } catch (error) {
    expect(error).toMatchObject({ _tag: "ConfigError" })
    return String((error as Error).message)
  }
  throw new Error("nothing was refused")
}

describe("the strongest source wins, and each value knows where it came from", () => {
  const everywhere: Sources = {
    flags: flags({ concurrency: "5" }),
    env: { CALLBOARD_CONCURRENCY: "6", CALLBOARD_PREFETCH: "7", CALLBOARD_HTTP_PORT: "8001" },
    file: file({ concurrency: 8, prefetch: 9, lostCap: 10, http: { port: 8002, host: "127.0.0.2" } }),
  }
  const { config, entries } = resolveConfig(everywhere)
  const entry = (path: string) => entries.find((each) => each.setting.path === path)

  test("flag, variable, file, default", () => {
    expect(config).toEqual({ concurrency: 5, prefetch: 7, lostCap: 10, http: { port: 8001, host: "127.0.0.2" } })
    expect(entry("concurrency")).toMatchObject({ value: 5, origin: "flag --concurrency" })
    expect(entry("prefetch")).toMatchObject({ value: 7, origin: "variable CALLBOARD_PREFETCH" })
    expect(entry("lostCap")).toMatchObject({ value: 10, origin: "callboard.config.ts" })
    expect(entry("grace")).toMatchObject({ origin: "default" })
    expect(entry("grace")).not.toHaveProperty("value")
  })

  test("a flag that takes something away", () => {
    const command = addSettings(new Command("worker"), ["rateLimits", "concurrency"])
    expect(resolveConfig({ flags: givenSettings(command.parse([], { from: "user" })) }).config).toEqual({})
    const given = givenSettings(command.parse(["--no-rate-limits"], { from: "user" }))
    expect(resolveConfig({ flags: given, env: { CALLBOARD_RATE_LIMITS: "true" } }).config).toEqual({
      rateLimits: false,
    })
    for (const text of ["false", "0"]) {
      expect(resolveConfig({ env: { CALLBOARD_RATE_LIMITS: text } }).config).toEqual({ rateLimits: false })
    }
    expect(() => resolveConfig({ env: { CALLBOARD_RATE_LIMITS: "maybe" } })).toThrow(/^CALLBOARD_RATE_LIMITS: must be/)
  })

  test("every setting is listed once", () => {
    expect(entries.map((each) => each.setting.path)).toEqual(SETTINGS.map((each) => each.path))
    expect(new Set(SETTINGS.map((each) => each.variable)).size).toBeGreaterThan(15)
  })
})

test("text becomes what the setting is", () => {
  const env = {
    CALLBOARD_QUEUES: "high, default,",
    CALLBOARD_GRACE: "1 minute",
    CALLBOARD_LEASE: "20",
    CALLBOARD_RESULT_TTL: "-1",
    CALLBOARD_LANGUAGES: "py=celery,go=workers",
    CALLBOARD_TASK_NAMES: "app.tasks.add=math.add",
    CALLBOARD_LOG_LEVEL: "debug",
    CALLBOARD_TRANSPORT: "nats://localhost",
    CALLBOARD_ORDER: "",
    CALLBOARD_METRICS: "false",
    CALLBOARD_TRACING: "TRUE",
    CALLBOARD_EVENTS: "true",
    CALLBOARD_TASK_SENT_EVENTS: "false",
    CALLBOARD_HTTP_TOKENS: "submit+read:abc=, admin:def",
  }
  expect(resolveConfig({ env }).config).toEqual({
    queues: ["high", "default"],
    grace: "1 minute",
    lease: 20,
    resultTtl: -1,
    languages: { py: "celery", go: "workers" },
    taskNames: { "app.tasks.add": "math.add" },
    logLevel: "debug",
    transport: "nats://localhost",
    metrics: false,
    tracing: true,
    events: true,
    taskSentEvents: false,
    http: {
      tokens: [
        { token: "abc=", scopes: ["submit", "read"] },
        { token: "def", scopes: ["admin"] },
      ],
    },
  })
})

describe("what is wrong is refused, by name and with the source", () => {
  const cases: ReadonlyArray<[what: string, sources: Sources, message: RegExp]> = [
    [
      "unknown key",
      { file: file({ concurency: 1 }) },
      /^callboard\.config\.ts: concurency is not a setting \(did you mean concurrency\?\)$/,
    ],
    [
      "unknown nested key",
      { file: file({ http: { prot: 1 } }) },
      /http\.prot is not a setting \(did you mean http\.port\?\)/,
    ],
    ["unknown key like nothing", { file: file({ zebra: 1 }) }, /zebra is not a setting$/],
    [
      "unknown variable",
      { env: { CALLBOARD_TRANSPROT: "x" } },
      /^CALLBOARD_TRANSPROT is not a setting \(did you mean CALLBOARD_TRANSPORT\?\)$/,
    ],
    ["wrong type", { file: file({ prefetch: "four" }) }, /^callboard\.config\.ts: prefetch: must be /],
    [
      "out of range",
      { env: { CALLBOARD_HTTP_PORT: "70000" } },
      /^CALLBOARD_HTTP_PORT: must be a whole number from 0 to 65535$/,
    ],
    ["not a number", { flags: flags({ concurrency: "many" }) }, /^--concurrency: must be /],
    ["not a duration", { env: { CALLBOARD_GRACE: "5 parsecs" } }, /^CALLBOARD_GRACE: "5 parsecs" is not a duration/],
    ["no switch", { env: { CALLBOARD_TRACING: "maybe" } }, /^CALLBOARD_TRACING: must be true or false/],
    ["negative grace", { file: file({ grace: -1 }) }, /grace: .*negative/],
    ["short lease", { flags: flags({ lease: "10ms" }) }, /^--lease: must be at least 1 second/],
    ["not a choice", { file: file({ order: "fair" }) }, /order: must be "strict" or "rotate" or "random"/],
    ["neither yes nor no", { env: { CALLBOARD_EVENTS: "perhaps" } }, /^CALLBOARD_EVENTS: must be true or false/],
    ["not a pair", { env: { CALLBOARD_LANGUAGES: "py" } }, /^CALLBOARD_LANGUAGES: "py" is not a pair/],
    [
      "no scope",
      { env: { CALLBOARD_HTTP_TOKENS: "reads:abc" } },
      /^CALLBOARD_HTTP_TOKENS: must be "read" or "payload" or "submit" or "operate" or "admin" or "no-payload"$/,
    ],
    [
      "a token without a scope",
      { env: { CALLBOARD_HTTP_TOKENS: "read:abc, def" } },
      /^CALLBOARD_HTTP_TOKENS: token 2 has no scope: write scope:token, .* read, payload, submit, operate, admin, no-payload, or several with \+ between them$/,
    ],
    ["no plugin", { file: file({ transports: { foo: {} } }) }, /transports\.foo: must be a transport plugin/],
    ["no object", { file: file(undefined) }, /its default export must be an object/],
  ]
  test.each(cases)("%s", (_what, sources, message) => {
    expect(refusal(sources)).toMatch(message)
  })

  test("variables that only look like ours are left alone", () => {
    const env = {
      CALLBOARD_RUNTIME: "bun",
      CALLBOARD_SERVICE_HOST: "10.0.0.1",
      CALLBOARD_SERVICE_PORT_HTTP: "80",
      CALLBOARD_PORT: "tcp://10.0.0.1:80",
      CALLBOARD_PORT_80_TCP_ADDR: "10.0.0.1",
      HOME: "/root",
    }
    expect(resolveConfig({ env }).config).toEqual({})
  })
})
