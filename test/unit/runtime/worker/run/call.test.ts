import { Effect } from "effect"
import { expect, test } from "vitest"
import { validate } from "../../../../../runtime/worker/run/call.ts"

const broken = (): never => {
  throw new Error("broken")
}

test.each<[string, () => unknown]>([
  ["throws", broken],
  ["rejects", () => Promise.reject(new Error("broken"))],
  ["answers with nothing", () => undefined],
  ["answers with nothing later", () => Promise.resolve(undefined)],
  ["has issues that throw", () => ({ issues: [Object.defineProperty({}, "path", { get: broken })] })],
  ["has issues that throw later", async () => ({ issues: [Object.defineProperty({}, "path", { get: broken })] })],
])("a schema that %s refuses the value, and says that it is the schema that failed", async (_, answer) => {
  const schema = { "~standard": { version: 1 as const, vendor: "test", validate: answer as () => { value: unknown } } }
  expect(await Effect.runPromise(validate(schema, 1))).toMatchObject({
    _tag: "Failure",
    failure: { field: "", message: expect.stringMatching(/^the schema itself failed: ./) },
  })
})
