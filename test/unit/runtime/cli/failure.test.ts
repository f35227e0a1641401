import { expect, test } from "vitest"
import { exitCodeOf, lineOf } from "../../../../runtime/cli/failure.ts"
import { TransportError } from "../../../../runtime/transport/mod.ts"

test("a broker that refuses the password is not asked whether it runs", () => {
  const refused = new TransportError("unauthorized", "localhost:4222 refuses the password")
  expect(lineOf(refused)).toBe("localhost:4222 refuses the password")
  const away = new TransportError("unavailable", "cannot connect to localhost:4222")
  expect(lineOf(away)).toContain("is it running?")
  expect([exitCodeOf(refused), exitCodeOf(away)]).toEqual([4, 4])
})
