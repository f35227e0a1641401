/** Claims of the next job try jobs in their order, with as few looks at the store as possible. */
import { connect } from "callboard"
import { expect, onTestFinished, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { Faults, faultyPlugin } from "../../../support/faults.ts"
import { eventually } from "../../../support/servers/process.ts"

const begin = async () => {
  const faults = new Faults()
  const name = generateId()
  const open = async () => {
    const client = await connect(`faulty://${name}`, { transports: { faulty: faultyPlugin(faults) } })
    onTestFinished(() => client.close())
    return client.board("builds")
  }
  const lists = () => faults.calls.get("store.list") ?? 0
  return { faults, board: await open(), other: await open(), lists }
}

test("a board that works off what it posts looks once a second", async () => {
  const { board, lists } = await begin()
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      for (let at = 0; at < 20; at++) {
        await board.post("a")
        await (await board.take("me")).consume()
      }
    }),
  )
  expect(await board.count()).toBe(0)
  expect(lists()).toBeLessThan(40)
})

test("claims at the same time work a backlog off with few looks, and none tries what another one claims", async () => {
  const { board, other, faults, lists } = await begin()
  for (let at = 0; at < 1_000; at++) await other.post(`${at}`)
  const before = {
    lists: lists(),
    gets: faults.calls.get("store.get") ?? 0,
    writes: faults.calls.get("store.write") ?? 0,
  }
  const names: Array<number> = []
  await Promise.all(
    Array.from({ length: 32 }, async () => {
      for (let at = 0; at < 30; at++) {
        const claim = await board.take("me")
        names.push(Number(claim.job.name))
        await claim.consume()
      }
    }),
  )
  expect(new Set(names).size).toBe(960)
  // The jobs are claimed in their order, apart from those that are claimed at the same time.
  for (const [at, name] of names.entries()) expect(Math.abs(name - at)).toBeLessThan(100)
  expect(lists() - before.lists).toBeLessThan(40)
  // Each job takes two writes, and the index a few; a claim that fails reads the job again.
  expect((faults.calls.get("store.write") ?? 0) - before.writes).toBeLessThan(1_960)
  expect((faults.calls.get("store.get") ?? 0) - before.gets).toBeLessThan(60)
})

test("what another board has posted keeps its place among its own", async () => {
  const { board, other } = await begin()
  await board.post("0")
  expect((await board.take("me")).job.name).toBe("0")
  for (let at = 1; at <= 6; at++) await (at % 2 === 0 ? board : other).post(`${at}`)
  // The other board gets the announcement at once, as in another process before that process posts.
  await new Promise((resolve) => setTimeout(resolve, 50))
  const names: Array<string> = []
  for (let at = 1; at <= 6; at++) names.push((await board.take("me")).job.name)
  expect(names).toEqual(["1", "2", "3", "4", "5", "6"])
})

test("a job of a higher priority that comes during a look is taken first", async () => {
  for (const by of ["board", "other"] as const) {
    const scene = await begin()
    const { board, faults } = scene
    for (let at = 0; at < 3; at++) await board.post(`${at}`)
    const gate = Promise.withResolvers<void>()
    let looks = 0
    faults.after = async (call) => {
      if (call === "store.list" && ++looks === 1) await gate.promise
    }
    const first = board.take("me")
    await eventually(() => looks === 1, { message: "it looks" })
    await scene[by].post("urgent", { priority: "HIGH" })
    await new Promise((resolve) => setTimeout(resolve, 50))
    gate.resolve()
    const names = [(await first).job.name, (await board.take("me")).job.name]
    expect(names).toContain("urgent")
    expect(names).toEqual(by === "board" ? ["urgent", "0"] : expect.arrayContaining(["urgent"]))
  }
})

test("a job that was abandoned is taken again at its place", async () => {
  const { board } = await begin()
  for (const name of ["a", "b", "c"]) await board.post(name)
  const first = await board.take("me")
  await first.abandon()
  expect((await board.take("me")).job.name).toBe("a")
  expect((await board.take("me")).job.name).toBe("b")
})

test("a job of a priority between those that were found is taken between them", async () => {
  for (const by of ["board", "other"] as const) {
    const { board, other } = await begin()
    for (const priority of ["LOW", "VERY_HIGH", "VERY_HIGH"]) await board.post(priority, { priority })
    const names = [(await board.take("me")).job.name]
    const heard = Promise.withResolvers<void>()
    await board.on("POSTED", () => heard.resolve())
    await { board, other }[by].post("NORMAL")
    await heard.promise
    for (let at = 0; at < 3; at++) names.push((await board.take("me")).job.name)
    expect(names).toEqual(["VERY_HIGH", "VERY_HIGH", "NORMAL", "LOW"])
  }
})

test("a job that another board restores is taken at its old place", async () => {
  const { board, other } = await begin()
  for (const name of ["a", "b", "c", "d"]) await board.post(name)
  const first = await other.take("me")
  await first.trash()
  expect((await board.take("me")).job.name).toBe("b")
  const heard = Promise.withResolvers<void>()
  await board.on("POSTED", () => heard.resolve())
  await other.restore(first.job.id)
  await heard.promise
  expect((await board.take("me")).job.name).toBe("a")
  expect((await board.take("me")).job.name).toBe("c")
})
