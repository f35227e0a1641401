/** Each setting, misspelt and mistyped, from each source that can give it: the same words, and the source by its name. */
import { actor, connect } from "callboard"
import { Command } from "commander"
import { describe, expect, test } from "vitest"
import { addSettings, givenSettings } from "../../../../runtime/cli/invocation.ts"
import { checkConfig } from "../../../../runtime/config/file.ts"
import { resolveConfig } from "../../../../runtime/config/resolving.ts"
import { type ListedSetting, SETTINGS } from "../../../../runtime/config/settings.ts"
import { connectTransport } from "../../../../runtime/connection/connect.ts"
import { settingsOf } from "../../../../runtime/service/settings.ts"

/** What is thrown, or what a promise is rejected with. */
const refusal = async (refused: () => unknown): Promise<string> => {
  try {
    await refused()
  } catch (cause) {
    return cause instanceof Error ? cause.message : String(cause)
  }
  return "accepted"
}

/** The setting at its path: `http.port` is `{ http: { port } }`. */
const nested = (path: string, value: unknown): object =>
  path.split(".").reduceRight<unknown>((inner, key) => ({ [key]: inner }), value) as object

/** The name with its second letter twice. */
const misspelt = (path: string): string =>
  path.replace(/([^.])([^.]*)$/, (_, first, rest) => first + (rest[0] ?? "") + rest)

const inServe = ({ path, for: whom }: ListedSetting): boolean => whom !== "command" || path.startsWith("http.")

describe("a misspelt name is refused with the one that is meant", () => {
  test.each(SETTINGS.map((setting) => [setting.path, setting] as const))("%s", async (path, setting) => {
    const wrong = misspelt(path)
    expect(await refusal(() => checkConfig("callboard.config.ts", nested(wrong, 1)))).toBe(
      `callboard.config.ts: ${wrong} is not a setting (did you mean ${path}?)`,
    )
    const { variable } = setting
    if (variable !== undefined) {
      const name = variable.replace(/(.)$/, "$1$1")
      expect(await refusal(() => resolveConfig({ env: { [name]: "1" } }))).toBe(
        `${name} is not a setting (did you mean ${variable}?)`,
      )
    }
    if (inServe(setting))
      expect(await refusal(() => settingsOf(nested(wrong, 1)))).toBe(
        `${wrong} is not an option of serve() (did you mean ${path}?)`,
      )
    if (setting.for === "connect")
      expect(await refusal(() => connect("memory://refusals", nested(wrong, 1)))).toBe(
        `${wrong} is not an option of connect() (did you mean ${path}?)`,
      )
  })

  test.each<readonly [options: object, wrong: string, meant: string]>([
    [{ timeLimit: { sfot: 1 } }, "timeLimit.sfot", "timeLimit.soft"],
    [{ retry: { backof: {} } }, "retry.backof", "retry.backoff"],
    [{ retry: { backoff: { bse: 1 } } }, "retry.backoff.bse", "retry.backoff.base"],
  ])("in options of methods, in the file and in code: %j", async (options, wrong, meant) => {
    expect(await refusal(() => checkConfig("callboard.config.ts", options))).toBe(
      `callboard.config.ts: ${wrong} is not a setting (did you mean ${meant}?)`,
    )
    expect(await refusal(() => settingsOf(options))).toBe(
      `${wrong} is not an option of serve() (did you mean ${meant}?)`,
    )
  })

  test("in the file, the group of settings that code has by one name each", async () => {
    expect(await refusal(() => checkConfig("callboard.config.ts", { log: { level: "debug" } }))).toBe(
      "callboard.config.ts: log is not a setting (did you mean logLevel?)",
    )
    expect(await refusal(() => settingsOf(nested("log.level", "debug")))).toBe(
      "log: must be a log with the methods debug, info, warn, error",
    )
  })

  test.each([
    ["memory:", "leese", "lease"],
    ["nats://127.0.0.1:1", "leese", "lease"],
    ["nats://127.0.0.1:1", "replica", "replicas"],
    ["sqlite:/nowhere/x.db", "snc", "sync"],
    ["redis://127.0.0.1:1", "visibility_timeot", "visibility_timeout"],
    ["amqp://127.0.0.1:1?records=memory:", "queue-typ", "queue-type"],
    ["postgres://127.0.0.1:1", "sslmod", "sslmode"],
  ])("in the URL of %s: ?%s", async (url, wrong, meant) => {
    const asked = `${url}${url.includes("?") ? "&" : "?"}${wrong}=1`
    expect(await refusal(() => connectTransport(asked))).toBe(
      `?${wrong} is not an option of ${new URL(url).protocol} (did you mean ?${meant}?)`,
    )
  })
})

/** A value of another type: as text, which flags and variables give, and in file and code. */
const mistyped = ({ path, read }: ListedSetting): { readonly text?: string; readonly value: unknown } => {
  if (path === "autoscale") return { text: "2", value: "2" }
  if (/^(order|log(Level|Format|Color))$/.test(path)) return { text: "wrong", value: "wrong" }
  if (path === "namespace") return { text: "a b", value: "a b" }
  if (path === "queues") return { text: "a b", value: ["a b"] }
  if (path === "logLevels") return { text: "a=wrong", value: { a: "wrong" } }
  switch (read) {
    case "number":
      return { text: "many", value: "many" }
    case "switch":
      return { text: "maybe", value: "maybe" }
    case "duration":
      return { text: "soon", value: "soon" }
    case "tokens":
      return { text: "wrong:abc", value: [{ token: "abc", scopes: ["wrong"] }] }
    // Every text is one.
    default:
      return { value: read === "list" || read === "pairs" ? "wrong" : 5 }
  }
}

describe("a value of another type is refused in the same words from each source, which is named", () => {
  test.each(SETTINGS.map((setting) => [setting.path, setting] as const))("%s", async (path, setting) => {
    const { text, value } = mistyped(setting)
    /** What is wrong, after where: the place may be an element of the setting. */
    const words = async (source: string, refused: () => unknown): Promise<string> => {
      const message = await refusal(refused)
      expect(message.startsWith(source), `${message} begins with ${source}`).toBe(true)
      return message.slice(source.length).replace(/^[\w.[\]]*: /, "")
    }
    const why = await words(`callboard.config.ts: ${path}`, () =>
      checkConfig("callboard.config.ts", nested(path, value)),
    )
    const { variable, flag, read } = setting
    if (text !== undefined && variable !== undefined)
      expect(await words(variable, () => resolveConfig({ env: { [variable]: text } }))).toBe(why)
    if (text !== undefined && flag !== undefined && read !== "switch") {
      const command = addSettings(new Command("worker"), [path])
      const [name = ""] = /--[\w-]+/.exec(flag) ?? []
      const given = () => givenSettings(command.parse([name, text], { from: "user" }))
      expect(await words(name, () => resolveConfig({ flags: given() }))).toBe(why)
    }
    // What code takes besides has words of its own.
    if (["transport", "tracing"].includes(path)) return
    if (inServe(setting)) expect(await words(path, () => settingsOf(nested(path, value)))).toBe(why)
    if (setting.for === "connect")
      expect(await words(path, () => connect("memory://refusals", nested(path, value)))).toBe(why)
  })

  test.each<readonly [options: object, place: string, why: string]>([
    [{ timeLimit: { hard: 0 } }, "timeLimit.hard", "must be more than 0"],
    [{ timeLimit: { soft: 2, hard: 1 } }, "timeLimit.soft", "must be shorter than timeLimit.hard"],
    [{ retry: { max: 0 } }, "retry.max", "must be a whole number from 1 to 10000"],
    [{ retry: { interval: 1, backoff: {} } }, "retry.interval", "use either `interval` or `backoff`, not both"],
    [{ onLost: "maybe" }, "onLost", 'must be "redeliver" or "fail"'],
  ])("in options of methods, in the file, in code and in an actor: %j", async (options, place, why) => {
    const inFile = await refusal(() => checkConfig("callboard.config.ts", options))
    expect(inFile).toBe(`callboard.config.ts: ${place}: ${why}`)
    expect(await refusal(() => settingsOf(options))).toBe(`${place}: ${why}`)
    const inActor = await refusal(() => actor("x", { ...options, methods: { run: () => 1 } }))
    expect(inActor).toBe(`actor x: ${place}: ${why}`)
  })

  test.each([
    ["lease", "soon"],
    ["lease", "10 ms"],
    ["lease", "2 days"],
    ["ns", "a b"],
  ])("in a URL: ?%s=%s", async (name, text) => {
    const setting = name === "ns" ? "namespace" : name
    const file = await refusal(() => checkConfig("callboard.config.ts", { [setting]: text }))
    const inUrl = await refusal(() => connectTransport(`memory:?${name}=${encodeURIComponent(text)}`))
    expect(inUrl).toBe(file.replace(`callboard.config.ts: ${setting}`, `?${name}`))
  })
})
