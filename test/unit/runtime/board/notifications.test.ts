/** Announcements of boards: each is sent, and a wait that is over leaves no listener behind. */
import { connect } from "callboard"
import { expect, onTestFinished, test } from "vitest"
import { BoardNotifications } from "../../../../runtime/board/notifications.ts"
import { generateId } from "../../../../runtime/id.ts"

test("what is announced just when the sending ends is sent", async () => {
  const client = await connect(`memory://${generateId()}`)
  onTestFinished(() => client.close())
  const { connection } = client
  const sent: Array<string> = []
  for (let turns = 0; turns < 12; turns++) {
    const gate = Promise.withResolvers<void>()
    const send = (_: string, payload: Uint8Array) => {
      sent.push(new TextDecoder().decode(payload))
      return gate.promise
    }
    const broadcast = { ...connection.broadcast, send }
    const news = new BoardNotifications({ ...connection, broadcast }, "b", new AbortController().signal)
    news.announce("POSTED", { id: `first ${turns}`, name: "a", priority: "HIGH", sequence: 1 })
    gate.resolve()
    for (let turn = 0; turn < turns; turn++) await undefined
    news.announce("REMOVAL", { id: `last ${turns}`, name: "a", priority: "HIGH", sequence: 1 })
    await new Promise((resolve) => setTimeout(resolve))
    expect(sent.filter((each) => each.includes(`last ${turns}`))).toHaveLength(1)
  }
})

test("a wait leaves nothing behind, however often a board on which nothing happens is looked at", async () => {
  const client = await connect(`memory://${generateId()}`)
  onTestFinished(() => client.close())
  const job = await client.board("builds").post("a")
  await job.wait({ timeout: 0 })
  // A promise that never settles keeps everything in memory that waits for it.
  const asked = new Map<unknown, number>()
  const then = Promise.prototype.then
  Promise.prototype.then = function (...given) {
    asked.set(this, (asked.get(this) ?? 0) + 1)
    return Reflect.apply(then, this, given)
  }
  try {
    await job.wait({ timeout: 0.3, delay: 0.005, maxDelay: 0.005 })
  } finally {
    Promise.prototype.then = then
  }
  expect(asked.size).toBeGreaterThan(3)
  expect(Math.max(...asked.values())).toBeLessThan(5)
})
