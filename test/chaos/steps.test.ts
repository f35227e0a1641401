/** The short form of deaths in durable steps. `npm run chaos -- steps` tries all points, `-- steps-faults` broken builds. */
import { expect, test } from "vitest"
import { allBoards } from "../e2e/boards.ts"
import { mutantSource, stepMutants } from "./step-mutants.ts"
import { runStepDeaths } from "./steps.ts"

test.each(allBoards.filter(({ name }) => name !== "redis"))(
  "workers that die or freeze at a write of their steps change no end, on $name",
  async (kind) => {
    await using board = await kind.open()
    const { points, problems } = await runStepDeaths(board, { every: kind.name === "sqlite" ? 5 : 17 })
    expect(problems).toEqual([])
    expect(points).toBeGreaterThan(10)
  },
  300_000,
)

test("each broken build of `chaos -- steps-faults` can still be made", () => {
  for (const mutant of stepMutants) expect(mutantSource(mutant)).toContain(mutant.to)
})
