import { Result } from "effect"
import { expect, test } from "vitest"
import { decodeBody } from "../../../../../runtime/protocol/body.ts"
import { posting, problem } from "../../client/submitting/planned.ts"

test("a chain whose links would all carry very many errbacks is refused before it is written out", () => {
  const many = (count: number) => Array.from({ length: count }, () => ({ task: "a" }))
  expect(problem({ chain: many(1_000), errbacks: many(1_000) })).toEqual({ code: "invalid-input", field: "errbacks" })
  expect(posting({ chain: many(1_000), errbacks: many(3) }).id).toBe("own")
})

test("two follow-ups, or a follow-up and its job, cannot have one id: one of them would never be submitted", () => {
  expect(problem({ callbacks: [{ task: "a", id: "own" }] })).toEqual({
    code: "invalid-input",
    field: "callbacks[0].id",
  })
  expect(problem({ callbacks: [{ task: "a", id: "x" }], chain: [{ task: "b" }, { task: "b", id: "x" }] })).toEqual({
    code: "invalid-input",
    field: "chain[1].id",
  })
  expect(problem({ callbacks: [{ task: "a", id: "x" }], errbacks: [{ task: "b", id: "y" }] })).toBeUndefined()
})

test("a chain travels with its next link last, and its links inherit the errbacks", () => {
  const { message } = posting({ chain: [{ task: "a" }, { task: "b" }], errbacks: [{ task: "sorry" }] })
  const { embed } = Result.getOrThrow(decodeBody(message))
  expect(embed.chain?.map((link) => link.task)).toEqual(["b", "a"])
  expect(embed.chain?.map((link) => link.options["link_error"])).toMatchObject([
    [{ task: "sorry" }],
    [{ task: "sorry" }],
  ])
})
