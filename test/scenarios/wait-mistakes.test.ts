/** Mistakes in waits, calls and signals are refused with the same code and words, however the handler runs. */
import { expect, test } from "vitest"
import { start } from "../support/services.ts"
import { mistakes, TOLD } from "./wait-mistakes.ts"

test.each(["inside", "apart", "effect"])("mistakes of a handler that runs %s", async (how) => {
  const { client } = await start([mistakes])
  const job = await client.submit(`mistakes.${how}`)
  const told = await job.result({ timeout: 60 })
  expect(told).toEqual(
    Object.fromEntries(
      Object.entries(TOLD).map(([what, [code, message]]) => [what, [code, expect.stringMatching(message)]]),
    ),
  )
})

test("a method with early acks cannot wait", async () => {
  const { client } = await start([mistakes])
  const job = await client.submit("mistakes.early")
  expect(await job.result({ timeout: 60 })).toEqual(["unsupported", expect.stringMatching(/late acks/)])
})
