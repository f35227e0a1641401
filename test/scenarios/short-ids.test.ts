/** Jobs are found by the ending of their ids that the command line shows, on every transport. */
import { type Client, connect } from "callboard"
import { afterEach, expect, test } from "vitest"
import { fullId, MAX_SEARCHED } from "../../runtime/cli/input.ts"
import { onEveryBoard } from "./boards.ts"

const clients: Array<Client> = []
afterEach(() => Promise.all(clients.splice(0).map((client) => client.close())))

onEveryBoard((newBoard) => {
  const boardWith = async (...ids: ReadonlyArray<string>): Promise<Client> => {
    const client = await connect(newBoard())
    clients.push(client)
    for (const id of ids) await client.submit("text.count", { id })
    return client
  }

  test("an ending that one job has is its id; an exact id is itself", async () => {
    const client = await boardWith("order-0001", "order-0002", "0002", "x".repeat(40))
    expect(await fullId(client, "0001")).toBe("order-0001")
    expect(await fullId(client, "…0001")).toBe("order-0001")
    // Also the end of another one.
    expect(await fullId(client, "0002")).toBe("0002")
    expect(await fullId(client, "r-0002")).toBe("order-0002")
  })

  test("an ending of several jobs is refused, with them; a short one and one of none are left as they are", async () => {
    const client = await boardWith("a-7777", "b-7777", "c-777")
    await expect(fullId(client, "7777")).rejects.toThrow(
      /^7777 is the end of several ids: (a-7777 \(text\.count\), b-|b-7777 \(text\.count\), a-)7777 \(text\.count\); use more characters of the id/,
    )
    expect(await fullId(client, "777")).toBe("777")
    expect(await fullId(client, "8888")).toBe("8888")
  })
})

test("an exact id costs no search, and a search reads so many jobs and no more", async () => {
  const client = await connect("memory:")
  clients.push(client)
  await client.submit("text.count", { id: "order-0001" })
  const lists: Array<number> = []
  const endless: Client = Object.create(client, {
    jobs: {
      value: async ({ limit = 0 }) => {
        lists.push(limit)
        const job = await client.job("order-0001").find()
        return {
          jobs: Array.from({ length: limit }, (_, at) => ({ ...job, id: `job-${lists.length}-${at}` })),
          next: "x",
        }
      },
    },
  })
  expect(await fullId(endless, "order-0001")).toBe("order-0001")
  expect(await fullId(endless, "01a1faa5-1589-7516-bcc6-ef73c8847913")).toMatch(/^01a1faa5/)
  expect(lists).toEqual([])
  expect(await fullId(endless, "none-such")).toBe("none-such")
  expect(lists.reduce((sum, limit) => sum + limit, 0)).toBe(MAX_SEARCHED)
})
