/** The functions that begin everything, with arguments of a wrong shape, as code without types gives them. */
import { actor, connect, connectCelery, connectSync, serve } from "callboard"
import { connectHttp } from "callboard/client"
import { expect, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"

const orders = actor("orders", { methods: { run: () => 1 } })
const url = `memory://${generateId()}`

/** What a call without types comes to: its error. */
const refusalOf = async (call: (...args: ReadonlyArray<never>) => unknown, ...args: ReadonlyArray<unknown>) => {
  try {
    return await Reflect.apply(call, undefined, args)
  } catch (error) {
    return error
  }
}

test.each<[string, (...args: ReadonlyArray<never>) => unknown, ReadonlyArray<unknown>]>([
  ["connect() with null", connect, [url, null]],
  ["connect() with text", connect, [url, "callboard"]],
  ["connectSync() without", connectSync, [url]],
  ["connectSync() with null", connectSync, [url, null]],
  ["connectHttp() with null", connectHttp, ["http://127.0.0.1", null]],
  ["connectCelery() without", connectCelery, []],
  ["connectCelery() with a URL", connectCelery, ["redis://127.0.0.1"]],
  ["serve() with null", serve, [null]],
  ["serve() with a number", serve, [7420]],
])("options that are no object are refused, and named: %s", async (_name, call, args) => {
  expect(await refusalOf(call, ...args)).toMatchObject({
    _tag: "CallboardError",
    code: "invalid-input",
    message: expect.stringMatching(/^the options of \w+\(\) are an object/),
  })
})

test.each<[string, (...args: ReadonlyArray<never>) => unknown, object]>([
  ["actors", connectSync, {}],
  ["actors", connectSync, { actors: orders }],
  ["actors", connectSync, { actors: [{}] }],
  ["taskNames", connectSync, { actors: [orders], taskNames: { "app.total": "orders" } }],
  ["taskNames", connect, { taskNames: { "app.total": "orders" } }],
])("%s of a wrong shape are refused", async (field, call, settings) => {
  expect(await refusalOf(call, url, settings)).toMatchObject({
    _tag: "CallboardError",
    code: "invalid-input",
    message: expect.stringMatching(`^${field}: must be `),
    details: { field },
  })
})
