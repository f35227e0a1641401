/** Changes that many processes make at the same time to the same job, entry or schedule: all of them arrive. */
import { connect } from "callboard"
import * as Schema from "effect/Schema"
import { expect, onTestFinished, test } from "vitest"
import { StoreEntry } from "../../../../runtime/async/store-entry.ts"
import type { Client } from "../../../../runtime/client/client.ts"
import { generateId } from "../../../../runtime/id.ts"

const opened = async (url = `memory://${generateId()}`): Promise<Client> => {
  const client = await connect(url)
  onTestFinished(() => client.close())
  return client
}

/** Lets other processes come before the next changes of what is stored already, so many times. */
const contend = ({ connection: { jobs, store } }: Client, times: number): void => {
  const [decide, write] = [jobs.decide.bind(jobs), store.write.bind(store)]
  let left = times
  Object.assign(jobs, {
    decide: async (...given: Parameters<typeof decide>) => (left-- > 0 ? [{ status: "conflict" }] : decide(...given)),
  })
  Object.assign(store, {
    write: async (...given: Parameters<typeof write>) =>
      given[0].some(({ expect: revision = "" }) => revision !== "") && left-- > 0 ? "conflict" : write(...given),
  })
}

test("sixty changes of one job at once", async () => {
  const board = `memory://${generateId()}`
  const clients = await Promise.all([1, 2, 3].map(() => opened(board)))
  const job = await clients[0]?.submit("mail.send")
  const changes = Array.from({ length: 60 }, (_, at) => ({ [`m${at}`]: at }))
  await Promise.all(changes.map((patch, at) => clients[at % 3]?.job(job?.id ?? "").patchMeta(patch)))
  expect((await job?.find())?.meta).toEqual(Object.assign({}, ...changes))
})

test("a decision that twenty others come before", async () => {
  const client = await opened()
  const { id } = await client.submit("mail.send")
  contend(client, 20)
  expect(await client.job(id).cancel()).toMatchObject({ state: "cancelled" })
})

test("a change of an entry of the store that twenty others come before", async () => {
  const client = await opened()
  const { store } = client.connection
  const entry = new StoreEntry("number/", Schema.Finite)
  await store.write([entry.put("n", 1)])
  contend(client, 20)
  expect(await entry.change(store, "n", (found) => ({ value: (found?.value ?? 0) + 1 }))).toEqual({ value: 2 })
})

test("a change of a schedule that twenty others come before", async () => {
  const client = await opened()
  await client.schedules.create("weekly", { cron: "0 7 * * mon", task: "mail.send" })
  contend(client, 20)
  expect(await client.schedules.pause("weekly")).toMatchObject({ state: "paused" })
})

test("a claim of a board's job that twenty-five others come before", async () => {
  const client = await opened()
  const board = client.board("builds")
  const { id } = await board.post("compile")
  contend(client, 25)
  expect(await board.claim(id, "builder")).toMatchObject({ owner: "builder" })
})
