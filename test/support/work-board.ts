/** A job board worked from its first posting to its last consumed job, by two processes as far as their connections tell. */
import { connect } from "callboard"
import { expect } from "vitest"
import { eventually } from "./servers/process.ts"

/** Works a board of the transport, with everything that a board asks of a store: one smoke for each transport and runtime. */
export const workBoard = async (url: string): Promise<void> => {
  await using client = await connect(url)
  await using second = await connect(url)
  const [board, other] = [client.board("builds"), second.board("builds")]
  const told: Array<string> = []
  await other.on("*", ({ event }) => told.push(event))
  const waiting = other.take("first", { wait: 30, expiry: 0.3 })
  const job = await board.post("compile", { details: { text: "ü✓", list: [1, null] }, book: { name: "b", uuid: "u" } })
  const taken = await waiting
  expect(taken.job).toMatchObject({ id: job.id, details: { text: "ü✓", list: [1, null] }, book: { name: "b" } })
  const over = await board.take("second", { wait: 30 })
  expect(over.view).toMatchObject({ owner: "second", lastOwner: "first", claim: 2 })
  await expect(taken.consume()).rejects.toMatchObject({ code: "not-owner" })
  await expect(other.claim(job.id, "third")).rejects.toMatchObject({ code: "unclaimable" })
  const names = ["low", "high", "next"]
  for (const [at, name] of names.entries())
    await board.post(name, { priority: ["LOW", "VERY_HIGH", "NORMAL"][at] ?? "" })
  expect((await other.list({ onlyUnclaimed: true })).jobs.map(({ name }) => name)).toEqual(["high", "next", "low"])
  expect(await board.extendExpiry(job, 30)).toBe(true)
  await over.trash()
  expect(await other.trashed()).toMatchObject([{ id: job.id, lastOwner: "second" }])
  await board.restore(job.id)
  for (const name of ["high", "compile", "next", "low"]) {
    const claim = await board.take("second")
    expect(claim.job.name).toBe(name)
    expect((await claim.consume()).story.at(-1)).toMatchObject({ step: "consumed", owner: "second" })
  }
  expect(await other.count()).toBe(0)
  await other.registerEntity({ kind: "builder", name: "a/b" })
  expect(await board.entities()).toMatchObject([{ kind: "builder", name: "a/b" }])
  // Five postings with the restored job, and five that went, with the trashed one.
  await eventually(() => told.length === 10, { message: "all is told" })
  expect(told.toSorted().slice(0, 5)).toEqual(Array.from({ length: 5 }, () => "POSTED"))
}
