import type { Msg } from "nats"
import { afterEach, expect, test, vi } from "vitest"
import { Inbox } from "../../../../../plugins/nats/connection/inbox.ts"
import { block } from "../../../../support/block.ts"
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

const messageTo = (subject: string): Msg => ({
  subject,
  sid: 1,
  data: new Uint8Array(1),
  respond: () => false,
  json: () => {
    throw new Error("it is not JSON")
  },
  string: () => "",
})

test("a reply that arrives while the thread is blocked is in time; without one the request fails", async () => {
  const heard: Array<(error: null, message: Msg) => void> = []
  const inbox = new Inbox({
    subscribe: (_, { callback } = {}) => {
      if (callback !== undefined) heard.push(callback)
      return { unsubscribe: () => undefined }
    },
  })
  const results: Array<string> = []
  const request = (name: string) =>
    inbox.register({
      timeout: 100,
      subjectOf: () => name,
      answered: () => results.push(`${name} answered`) > 0,
      failed: (_, { message }) => void results.push(message),
    })
  const subject = inbox.reply(request("asked"))
  request("unanswered")
  // Some event loops look at timers before sockets: this timer is due behind the one that looks for overdue requests.
  setTimeout(() => heard[0]?.(null, messageTo(subject)), 300)
  block(600)
  await eventually(() => results.length === 2, { deadline: 20_000, message: "both have a result" })
  expect(results).toEqual(["asked answered", "unanswered: no answer within 100 ms"])
})
