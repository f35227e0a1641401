/** The list of groups: what is noted of one, and when that is removed. */
import { actor, connect } from "callboard"
import { expect, onTestFinished, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { start } from "../../../support/services.ts"

const sum = actor("sum", {
  methods: {
    one: ({ n }: { readonly n: number }) => n,
    plus: { params: ["n"], run: ({ n }: { readonly n: number }) => n + 1 },
    list: (results: unknown) => results,
  },
})

test("a group in a chain is listed once it has jobs, however long that takes; an old one without jobs is forgotten", async () => {
  const board = `memory://${generateId()}`
  const client = await connect(board)
  onTestFinished(() => client.close())
  const { store } = client.connection
  const chain = [{ task: "sum.list", id: "late", chord: [{ task: "sum.plus" }] }]
  await client.submit("sum.one", { input: { n: 1 }, chain })
  const noted = await store.list({ prefix: "group/", limit: 10 })
  expect(noted.map(({ key }) => key)).toEqual(["group/late"])
  const value = new TextEncoder().encode(JSON.stringify({ at: Date.now() - 3_600_000 }))
  for (const key of ["group/late", "group/over"]) await store.write([{ key, value }])
  expect(await client.groups()).toEqual({ groups: [] })
  await (await start([sum], { transport: board, burst: true })).stopped
  expect(await client.job("late").result({ timeout: 30 })).toEqual([2])
  expect(await client.groups()).toEqual({ groups: ["late"] })
  expect((await store.list({ prefix: "group/", limit: 10 })).map(({ key }) => key)).toEqual(["group/late"])
})
