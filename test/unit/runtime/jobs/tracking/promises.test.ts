/** What is kept of ids that were promised, and how they are followed back to a job that is there. */
import { type Client, connect } from "callboard"
import { expect, onTestFinished, test } from "vitest"
import { generateId } from "../../../../../runtime/id.ts"
import { findPromised, promise } from "../../../../../runtime/jobs/tracking/promises.ts"

const open = async (): Promise<Client> => {
  const client = await connect(`memory://${generateId()}`)
  onTestFinished(() => client.close())
  return client
}

const chainOf = (client: Client, links: ReadonlyArray<string | undefined>) =>
  client.submit("step.run", {
    id: "first",
    chain: links.map((id) => ({ task: "step.run", ...(id === undefined ? {} : { id }) })),
  })

const stateOf = async ({ connection }: Client, id: string) => (await findPromised(connection, [id])).get(id)

test("what is kept of the ids of a chain grows with its length, and not with the square of that", async () => {
  const client = await open()
  await chainOf(
    client,
    Array.from({ length: 1_000 }, (_, n) => `link-${n}`),
  )
  const entries = await client.connection.store.list({ prefix: "promised/", limit: 10_000 })
  expect(entries).toHaveLength(1_000)
  expect(entries.reduce((sum, { value }) => sum + value.length, 0)).toBeLessThan(100_000)
})

test("a link is open while the job before it may lead to it, and ends as that does, however far before it that is", async () => {
  const client = await open()
  await chainOf(client, ["a", undefined, "b", "c"])
  expect(await stateOf(client, "c")).toBe("open")
  await client.job("first").cancel()
  for (const id of ["a", "b", "c"]) expect(await stateOf(client, id)).toBe("cancelled")
  expect(await stateOf(client, "first")).toBeUndefined()
  expect(await stateOf(client, "unknown")).toBeUndefined()
})

test("ids that promise each other in a circle have an end", async () => {
  const client = await open()
  const promised = [
    ["x", "y"],
    ["y", "x"],
  ]
  await promise(client.connection.store, promised, Date.now())
  expect(await stateOf(client, "x")).toBe("open")
  await promise(client.connection.store, promised, Date.now() - 2 * 3_600_000)
  expect(await stateOf(client, "x")).toBe("gone")
})
