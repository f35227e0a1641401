/** A caller that is gone when its claim is made holds no job. */
import { connect } from "callboard"
import { expect, onTestFinished, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { Faults, faultyPlugin } from "../../../support/faults.ts"
import { eventually } from "../../../support/servers/process.ts"

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

test("a caller that stops waiting is not told that the time was over", async () => {
  const client = await connect("memory:")
  onTestFinished(() => client.close())
  const signal = AbortSignal.timeout(50)
  const claim = client.board("builds").take("me", { wait: "20s", signal })
  await expect(claim).rejects.toThrow("the wait for a job of board builds was cancelled")
})

test("a claim that joins a look finds what was posted after that look began", async () => {
  const faults = new Faults()
  const client = await connect(`faulty://${generateId()}`, { transports: { faulty: faultyPlugin(faults) } })
  onTestFinished(() => client.close())
  const board = client.board("builds")
  await (await board.claim(await board.post("first"), "me")).consume()
  const gate = Promise.withResolvers<void>()
  let looks = 0
  faults.after = async (call) => {
    if (call === "store.list" && ++looks === 1) await gate.promise
  }
  const early = board.take("early").catch(({ code }) => code)
  await eventually(() => looks === 1, { message: "it looks" })
  await board.post("second")
  const late = board.take("late")
  gate.resolve()
  expect((await late).job.name).toBe("second")
  expect(await early).toBe("not-found")
})
