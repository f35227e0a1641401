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
