/** A suspended job on a board where one worker cannot read what its handler waits for. */
import { actor } from "callboard"
import { expect, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { decoder, encoder } from "../../runtime/protocol/text.ts"
import type { Entry, Store } from "../../runtime/transport/store.ts"
import { faulty } from "../support/faulty-board.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"

/** A store in which pages with waits are those of a later version. */
const withoutWaits = (store: Store): Store => {
  const later = <E extends Entry | undefined>(entry: E): E => {
    const text = entry?.key.startsWith("flow/") ? decoder.decode(entry.value) : ""
    return text.startsWith('{"v":3,') ? { ...entry, value: encoder.encode(text.replace('"v":3', '"v":9')) } : entry
  }
  return {
    ...store,
    get: async (keys) => (await store.get(keys)).map(later),
    list: async (range) => (await store.list(range)).map(later),
  }
}

test("is handed back by that worker, which does other work meanwhile, until another one continues it", async () => {
  const name = generateId()
  const ran: Array<string> = []
  const scene = actor("scene", {
    methods: {
      run: async (_input: unknown, job) => {
        await job.step("a", () => void ran.push("a"))
        const got = await job.waitFor("go")
        await job.step("b", () => void ran.push("b"))
        return [got, job.attempt]
      },
      other: () => "done",
    },
  })
  const first = await start([scene], { transport: `memory://${name}` })
  const job = await first.client.submit("scene.run")
  await eventually(async () => (await job.find()).waits !== undefined, { message: "the job is suspended" })
  await first.stop()
  const { client } = await start([scene], {
    transport: `faulty://${name}`,
    transports: faulty((transport) => ({ ...transport, store: withoutWaits(transport.store) })),
    concurrency: 1,
  })
  const suspended = client.job(job.id)
  await suspended.signal("go", 1)
  const backs = async () =>
    (await suspended.find()).transitions.flatMap(({ reason, at }) => (reason === "handed-back" ? [Date.parse(at)] : []))
  await eventually(async () => (await backs()).length >= 3, { message: "the job is handed back again" })
  const [one = 0, two = 0, three = 0] = await backs()
  expect(two - one).toBeGreaterThanOrEqual(900)
  expect(three - two).toBeGreaterThanOrEqual(1_900)
  expect(await (await client.submit("scene.other")).result({ timeout: 10 })).toBe("done")
  const newer = await start([scene], { transport: `memory://${name}` })
  expect(await newer.client.job(job.id).result({ timeout: 30 })).toEqual([1, 1])
  expect(ran).toEqual(["a", "b"])
})
