/** A chord of 10,000 members through the death of its workers: no member is lost or counted twice, and the body starts once. */
import { writeFileSync } from "node:fs"
import type { Client } from "callboard"
import { describe, expect, test } from "vitest"
import { decodePart } from "../../runtime/protocol/chord.ts"
import { sharedBoards } from "../e2e/boards.ts"
import { clientOf, DEADLINE, linesOf, startService } from "../e2e/processes.ts"
import { eventually } from "../support/servers/process.ts"

const MEMBERS = 10_000

/** Number of members that the store has noted as ended. */
const countedOf = async ({ connection: { store } }: Client): Promise<number> => {
  const parts = await store.list({ prefix: "chord-part/", limit: 1_000 })
  return parts.reduce((sum, { value }) => sum + (decodePart(value)?.ends.filter((end) => end !== null).length ?? 0), 0)
}

describe.each(sharedBoards)("on $name", (kind) => {
  test("a chord of 10,000 whose workers are killed in the middle of it ends once, with every result in its place", async () => {
    await using board = await kind.open()
    const client = await clientOf(board, 2)
    const ledger = `${board.folder}/ledger`
    // Most members wait for a worker's death, so that none can complete the chord before it.
    const [first, second] = [`${board.folder}/first`, `${board.folder}/second`]
    const gateOf = (n: number) => (n < MEMBERS / 4 ? {} : { gate: n < (MEMBERS * 3) / 4 ? first : second })
    const body = await client.submit("e2e.numbers", {
      chord: Array.from({ length: MEMBERS }, (_, n) => ({ task: "e2e.number", input: { n, ...gateOf(n) } })),
      kwargs: { ledger },
    })
    for (const [counted, gate] of [
      [1, first],
      [MEMBERS / 2, second],
    ] as const) {
      const worker = await startService(board, 2, { concurrency: 50 })
      await eventually(async () => (await countedOf(client)) >= counted, {
        deadline: DEADLINE,
        every: 50,
        message: `${counted} members are counted`,
      })
      worker.kill("SIGKILL")
      await worker.exited
      expect((await body.find()).state).toBe("deferred")
      writeFileSync(gate, "")
    }
    await startService(board, 2, { concurrency: 50 })
    expect(await body.outcome({ timeout: 150 })).toMatchObject({ state: "succeeded" })
    expect(linesOf(ledger)).toEqual([`${MEMBERS} true`])
    await eventually(async () => (await client.connection.store.list({ prefix: "chord", limit: 1 })).length === 0, {
      deadline: DEADLINE,
      message: "no entry is left",
    })
  }, 300_000)
})
