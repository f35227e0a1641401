/** What a board renews and gives back when calls of the store fail, and when the board is closed meanwhile. */
import { connect } from "callboard"
import { TransportError } from "callboard/transport"
import { expect, onTestFinished, test, vi } from "vitest"
import type { BoardOptions } from "../../../../runtime/board/board.ts"
import { generateId } from "../../../../runtime/id.ts"
import { Faults, faultyPlugin } from "../../../support/faults.ts"
import { eventually } from "../../../support/servers/process.ts"

const begin = async (options: BoardOptions) => {
  const faults = new Faults()
  const client = await connect(`faulty://${generateId()}`, { transports: { faulty: faultyPlugin(faults) } })
  onTestFinished(() => client.close())
  return { faults, client, board: client.board("builds", options) }
}

const cut = () => {
  throw new TransportError("unavailable", "the cable is cut")
}

test("a claim whose caller has gone is not renewed where it could not be given up", async () => {
  const { faults, board } = await begin({ lease: 1 })
  const job = await board.post("a")
  const gone = new AbortController()
  let writes = 0
  faults.before = (call) => {
    if (call !== "store.write") return
    gone.abort()
    if (++writes === 2) cut()
  }
  await expect(board.take("me", { wait: 5, signal: gone.signal })).rejects.toMatchObject({
    code: "transport-unavailable",
  })
  faults.heal()
  expect(await job.owner()).toBe("me")
  await eventually(async () => (await job.state()) === "UNCLAIMED", { message: "it lapses" })
})

test("a takeover that failed is not renewed where it could not be given up", async () => {
  const { faults, board, client } = await begin({ lease: 1 })
  const job = await board.post("a")
  await board.claim(job, "me", { expiry: 0.01 })
  await eventually(async () => (await job.state()) === "UNCLAIMED", { message: "it lapses" })
  const careful = client.board("builds", {
    lease: 1,
    onTakeover: () => {
      faults.before = (call) => (call === "store.write" ? cut() : undefined)
      throw new Error("cannot roll back")
    },
  })
  await expect(careful.claim(job.id, "other")).rejects.toThrow(/onTakeover failed/)
  faults.heal()
  expect(await job.owner()).toBe("other")
  await eventually(async () => (await job.state()) === "UNCLAIMED", { message: "it lapses" })
})

test("a claim that is made while its board is closed is lost, and not renewed", async () => {
  const { faults, board, client } = await begin({ lease: 1 })
  const job = await board.post("a")
  const gate = Promise.withResolvers<void>()
  faults.after = async (call) => {
    if (call === "store.write") await gate.promise
  }
  const claiming = board.claim(job, "me")
  await eventually(() => (faults.calls.get("store.write") ?? 0) >= 3, { message: "it is written" })
  await board.close()
  gate.resolve()
  expect((await claiming).signal.aborted).toBe(true)
  const other = client.board("builds")
  expect(await other.findOwner(job.id)).toBe("me")
  await eventually(async () => (await other.findOwner(job.id)) === null, { message: "it lapses" })
})

test("an entity is listed again after the store was away for longer than its lease", async () => {
  const { faults, board } = await begin({ lease: 1 })
  await board.registerEntity({ kind: "conductor", name: "c" })
  const failed = () => faults.calls.get("store.write") ?? 0
  const before = failed()
  faults.before = (call) => (call === "store.write" ? cut() : undefined)
  await eventually(() => failed() >= before + 5, { message: "renewals fail" })
  await eventually(async () => (await board.entities()).length === 0, { message: "it lapses" })
  faults.heal()
  await eventually(async () => (await board.entities()).length === 1, { message: "it is back" })
})

test("a claim whose renewals get no answer is lost when its lease is over", async () => {
  const { faults, board } = await begin({ lease: 1 })
  onTestFinished(() => faults.heal())
  const claim = await board.claim(await board.post("a"), "me")
  faults.before = () => faults.hang()
  await eventually(() => claim.signal.aborted, { deadline: 4_500, message: "its signal fires" })
})

test("a late posting that could not be checked says that it may have happened", async () => {
  const { faults, board } = await begin({})
  await board.post("first")
  vi.useFakeTimers({ toFake: ["Date", "performance"] })
  onTestFinished(() => void vi.useRealTimers())
  let isWritten = false
  faults.after = (call) => {
    if (call !== "store.write") return
    isWritten = true
    vi.advanceTimersByTime(6_000)
  }
  faults.before = (call) => (call === "store.get" && isWritten ? cut() : undefined)
  await expect(board.post("a")).rejects.toMatchObject({
    code: "transport-unavailable",
    details: { outcome: "unknown" },
  })
  faults.heal()
  expect(await board.count()).toBe(2)
})
