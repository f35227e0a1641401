/** A caller that is gone when its claim is made holds no job. */
import { connect } from "callboard"
import { expect, onTestFinished, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { Faults, faultyPlugin } from "../../../support/faults.ts"

test("a claim whose caller has gone meanwhile is given up", async () => {
  const faults = new Faults()
  const client = await connect(`faulty://${generateId()}`, { transports: { faulty: faultyPlugin(faults) } })
  onTestFinished(() => client.close())
  const board = client.board("builds")
  const job = await board.post("a")
  const gone = new AbortController()
  faults.before = (call) => {
    if (call === "store.write") gone.abort()
  }
  await expect(board.take("me", { wait: 5, signal: gone.signal })).rejects.toMatchObject({ code: "not-found" })
  faults.heal()
  expect(await job.find()).toMatchObject({ state: "UNCLAIMED", lastOwner: "me" })
})

test("claims of the next job at the same time find every job that was posted before them", async () => {
  const faults = new Faults()
  const client = await connect(`faulty://${generateId()}`, { transports: { faulty: faultyPlugin(faults) } })
  onTestFinished(() => client.close())
  const board = client.board("builds")
  // A list that takes a while, as that of a broker does: what is posted meanwhile is not in it.
  faults.after = async (call) => {
    if (call === "store.list") await new Promise((resolve) => setTimeout(resolve, 5))
  }
  const cycle = async (at: number): Promise<void> => {
    for (let n = 0; n < 5; n++) {
      await board.post(`${at} ${n}`)
      await (await board.take(`claimer ${at}`)).consume()
    }
  }
  await Promise.all(Array.from({ length: 20 }, (_, at) => cycle(at)))
  expect(await board.count()).toBe(0)
})
