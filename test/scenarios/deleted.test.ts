/** What is still stored of a job that was deleted: nothing that its handler returned, threw, or was given. */
import { DatabaseSync } from "node:sqlite"
import { actor, type Client } from "callboard"
import { connect as connectNats } from "nats"
import { expect, test } from "vitest"
import { recordToJson } from "../../runtime/protocol/record.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

const SECRET = "a-secret-that-must-go"

/** The secret as it is, and as base64 shows it, wherever in the bytes it begins. */
const FORMS = [
  SECRET,
  ...[0, 1, 2].map((before) =>
    Buffer.from("x".repeat(before) + SECRET)
      .toString("base64")
      .slice(before === 0 ? 0 : 4, -4),
  ),
]
const shows = (text: string): boolean => FORMS.some((form) => text.includes(form))

/** Everything that a file of the transport holds. */
const rowsOf = (url: string): string => {
  using file = new DatabaseSync(new URL(url).pathname, { readOnly: true })
  const tables = file.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all()
  return tables
    .flatMap(({ name }) => file.prepare(`SELECT * FROM "${name}"`).all())
    .flatMap((row) => Object.values(row))
    .map((value) => (value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : `${value}`))
    .join("\n")
}

/** Every message in every stream of the server. */
const messagesOf = async (url: string): Promise<string> => {
  const nats = await connectNats({ servers: new URL(url).host })
  try {
    const { streams } = await nats.jetstreamManager()
    const found: Array<string> = []
    for (const { config, state } of await streams.list().next()) {
      for (let seq = state.first_seq; seq <= state.last_seq; seq++) {
        // Between the first and the last many are gone.
        const message = await streams.getMessage(config.name, { seq }).catch(() => undefined)
        if (message !== undefined) found.push(`${message.header}`, Buffer.from(message.data).toString("latin1"))
      }
    }
    return found.join("\n")
  } finally {
    await nats.close()
  }
}

onEveryBoard((newBoard, transport) => {
  const stored = async (url: string, client: Client, ids: ReadonlyArray<string>): Promise<string> => {
    if (transport === "sqlite") return rowsOf(url)
    if (transport === "nats") return messagesOf(url)
    const found = await Promise.all(ids.map((id) => client.connection.jobs.find(id)))
    return found.flatMap((each) => (each === undefined ? [] : recordToJson(each.record))).join("\n")
  }

  test.each(["succeeds", "fails"])(
    "of a job that %s nothing is left, nor in what was stored of the jobs that follow it",
    async (outcome) => {
      const url = newBoard()
      const shop = actor("shop", {
        methods: {
          run: () => {
            if (outcome === "fails") throw new Error(SECRET)
            return SECRET
          },
          heard: () => null,
        },
      })
      const { client } = await start([shop], { transport: url })
      const [callback, link, errback] = ["callback", "link", "errback"].map((id) => ({ task: "shop.heard", id }))
      if (callback === undefined || link === undefined || errback === undefined) throw new Error("unreachable")
      const job = await client.submit("shop.run", { callbacks: [callback], chain: [link], errbacks: [errback] })
      const following = outcome === "fails" ? ["errback"] : ["callback", "link"]
      const atRest = async () => (await client.queues()).every(({ depth, inFlight }) => depth + inFlight === 0)
      const isDone = async (id: string) => (await client.connection.jobs.find(id))?.record.state === "succeeded"
      for (const id of following) await eventually(() => isDone(id), { message: `${id} has run` })
      await eventually(atRest, { message: "all tasks are acked" })
      const ids = [job.id, ...following]
      // Else the test would prove nothing.
      expect(shows(await stored(url, client, [job.id]))).toBe(true)
      await job.delete()
      expect(shows(await stored(url, client, ids))).toBe(false)
      await expect(job.find()).rejects.toMatchObject({ code: "gone" })
      for (const id of following) expect(await client.job(id).find()).toMatchObject({ state: "succeeded" })
    },
  )
})
