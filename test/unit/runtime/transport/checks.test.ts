/** What is refused for every transport before its broker is asked. */
import { describe, expect, test } from "vitest"
import { checkCommit, checkOperation, checkPosting } from "../../../../runtime/transport/mod.ts"
import { leastCapabilities } from "../../../kit/driver/least-driver.ts"
import { bytes, driverPosting } from "../../../kit/driver/task.ts"

const posting = driverPosting({ id: "j", queue: "q" })
const record = { expect: "", bytes: bytes("{}"), index: posting.index }
const value = bytes("1")

/** What has a name: each with the most bytes that this may have. */
const named: ReadonlyArray<readonly [what: string, max: number, check: (name: string) => void]> = [
  ["the id of a task", 255, (id) => checkPosting({ ...posting, id }, leastCapabilities)],
  ["the queue of a task", 255, (queue) => checkPosting({ ...posting, queue }, leastCapabilities)],
  ["the id of a record", 255, (id) => checkCommit({ id, record }, leastCapabilities)],
  ["the id of a follow-up", 255, (id) => checkCommit({ id: "j", post: [{ ...posting, id }] }, leastCapabilities)],
  ["a key of the store", 512, (key) => checkOperation({ key, value }, leastCapabilities)],
]

describe.each(named)("%s", (_, max, check) => {
  test("has at least one byte, at most so many, and is whole text without a zero byte", () => {
    for (const name of ["a", "a".repeat(max), "é", "日本語", "😀", "\u0001"]) expect(() => check(name)).not.toThrow()
    for (const name of ["", "a".repeat(max + 1), `é${"a".repeat(max - 1)}`])
      expect(() => check(name)).toThrow(
        expect.objectContaining({ reason: "invalid", message: expect.stringContaining("must have 1 to") }),
      )
    for (const name of ["a\0b", "\ud83d", "a\ude00"])
      expect(() => check(name)).toThrow(
        expect.objectContaining({ reason: "invalid", message: expect.stringContaining("zero byte") }),
      )
  })
})
