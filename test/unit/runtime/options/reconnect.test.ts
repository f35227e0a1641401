import { expect, test } from "vitest"
import { checkConfig } from "../../../../runtime/config/file.ts"
import { settingsOf } from "../../../../runtime/service/settings.ts"

const resolveReconnect = (reconnect: object) => settingsOf({ reconnect }).reconnect

test.each([{ maxTries: -1 }, { maxTries: 0.5 }, { base: 0 }, { base: "soon" }, { cap: 0 }, { cap: -1 }])(
  "%j is refused by name, in the same words in a configuration file and in code",
  (reconnect) => {
    const [field = ""] = Object.keys(reconnect)
    const refusal = (refused: () => unknown): string => {
      try {
        refused()
        return "accepted"
      } catch (cause) {
        return cause instanceof Error ? cause.message : String(cause)
      }
    }
    const inCode = refusal(() => resolveReconnect(reconnect))
    expect(inCode).toMatch(new RegExp(`^reconnect\\.${field}: `))
    expect(refusal(() => checkConfig("callboard.config.ts", { reconnect }))).toBe(`callboard.config.ts: ${inCode}`)
  },
)

test("the least that is taken is taken", () => {
  const reconnect = { maxTries: 0, base: "1 ms", cap: "1 ms" }
  expect(resolveReconnect(reconnect)).toMatchObject({ maxTries: 0, baseMs: 1, capMs: 1 })
  expect(checkConfig("callboard.config.ts", { reconnect })).toEqual({ reconnect })
})
