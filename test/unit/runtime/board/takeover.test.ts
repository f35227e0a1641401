/** After an owner has lost its job, the next claim rolls its work back before the job is handed over, however often that fails. */
import { connect } from "callboard"
import { expect, onTestFinished, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { eventually } from "../../../support/servers/process.ts"

test("after a failed hook the next claimer rolls back what was lost, and the one after it has nothing to", async () => {
  const client = await connect(`memory://${generateId()}`)
  onTestFinished(() => client.close())
  const told: Array<string> = []
  const board = client.board("builds", {
    onTakeover: (_, lost) => {
      told.push(`${lost.owner} ${lost.ended}`)
      if (told.length < 3) throw new Error("cannot roll back")
    },
  })
  const job = await board.post("a")
  await board.claim(job, "lost", { expiry: 0.001 })
  await eventually(async () => (await job.state()) === "UNCLAIMED", { message: "the claim lapses" })
  await expect(board.claim(job, "first")).rejects.toThrow(/onTakeover failed.*cannot roll back/)
  await expect(board.take("second")).rejects.toThrow(/onTakeover failed.*cannot roll back/)
  expect(await job.find()).toMatchObject({ state: "UNCLAIMED", owner: null, expiresIn: "NOT_CLAIMED" })
  // The last owner has lost the job all the same.
  await expect(board.consume(job.id, "lost")).rejects.toMatchObject({ code: "not-found" })
  const third = await board.claim(job, "third")
  expect(told).toEqual(["lost lapsed", "lost lapsed", "lost lapsed"])
  await third.abandon()
  const { story } = await (await board.claim(job, "fourth")).consume()
  expect(told).toHaveLength(3)
  expect(story.map(({ step, owner }) => `${step} ${owner ?? ""}`)).toEqual([
    "posted ",
    "claimed lost",
    "lapsed lost",
    "taken-over first",
    "abandoned first",
    "taken-over second",
    "abandoned second",
    "taken-over third",
    "abandoned third",
    "claimed fourth",
    "consumed fourth",
  ])
  expect(story.map(({ at }) => at)).toEqual(story.map(({ at }) => at).toSorted())
})

test("a claimer that dies while it rolls back leaves that to the next one, and is refused where it goes on", async () => {
  const client = await connect(`memory://${generateId()}`)
  onTestFinished(() => client.close())
  const frozen = Promise.withResolvers<void>()
  const told: Array<string> = []
  const first = client.board("builds", { onTakeover: () => frozen.promise })
  const second = client.board("builds", { onTakeover: (_, lost) => void told.push(`${lost.owner} ${lost.ended}`) })
  const job = await first.post("a")
  const lapsed = () => eventually(async () => (await job.state()) === "UNCLAIMED", { message: "the claim lapses" })
  await first.claim(job, "lost", { expiry: 0.001 })
  await lapsed()
  const dead = first.claim(job.id, "dead", { expiry: 0.05 })
  dead.catch(() => undefined)
  await eventually(async () => (await job.find()).lastOwner === "dead", { message: "it dies while it rolls back" })
  const taken = await second.claim(job.id, "next", { expiry: 0.8 })
  expect(taken.view).toMatchObject({ owner: "next", lastOwner: "dead" })
  frozen.resolve()
  await expect(dead).rejects.toMatchObject({ code: expect.stringMatching(/^not-/) })
  // Work that was rolled back is not rolled back again.
  await lapsed()
  await (await second.claim(job.id, "last")).consume()
  expect(told).toEqual(["lost lapsed", "next lapsed"])
})
