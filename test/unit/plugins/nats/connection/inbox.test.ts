import { afterEach, expect, test, vi } from "vitest"
import { Inbox } from "../../../../../plugins/nats/connection/inbox.ts"
import { eventually } from "../../../../support/servers/process.ts"

afterEach(() => void vi.restoreAllMocks())

test.each([
  ["back", -3_600_000],
  ["forward", 3_600_000],
])("a request fails after its timeout, whatever the clock: an hour %s", async (_, turned) => {
  const inbox = new Inbox({ subscribe: () => ({ unsubscribe: () => undefined }) })
  const failures: Array<number> = []
  const began = performance.now()
  inbox.register({
    timeout: 1_000,
    subjectOf: () => "subject",
    answered: () => true,
    failed: () => failures.push(performance.now() - began),
  })
  const now = Date.now.bind(Date)
  vi.spyOn(Date, "now").mockImplementation(() => now() + turned)
  await eventually(() => failures.length === 1, { deadline: 20_000, message: "it has failed" })
  expect(failures[0]).toBeGreaterThanOrEqual(999)
})
