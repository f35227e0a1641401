import { Result } from "effect"
import { afterEach, expect, test, vi } from "vitest"
import { CeleryEvents } from "../../../../runtime/celery/events.ts"
import { makeLog } from "../../../../runtime/log/log.ts"
import { decodeEvents, type ReceivedEvent } from "../../../../runtime/protocol/celery/event.ts"
import type { CeleryMessages } from "../../../../runtime/transport/celery.ts"

afterEach(() => vi.restoreAllMocks())

const sent = (): ReceivedEvent | undefined => {
  const found: Array<ReceivedEvent> = []
  const messages: Pick<CeleryMessages, "broadcast"> = {
    broadcast: async (_exchange, _key, { body }) => void found.push(...Result.getOrThrow(decodeEvents(body))),
  }
  const events = new CeleryEvents({ messages, node: "w@lab", enabled: true, log: makeLog({ level: "none" }) })
  events.emit("worker-heartbeat", {})
  return found[0]
}

// Monitors add the difference to their own `time.timezone // 3600`, which Python rounds down.
test.each([
  [0, 0],
  [-120, -2],
  [300, 5],
  [-330, -6],
  [-345, -6],
  [-30, -1],
  [210, 3],
])("%i minutes west of UTC are %i hours", (minutes, hours) => {
  vi.spyOn(Date.prototype, "getTimezoneOffset").mockReturnValue(minutes)
  expect(sent()?.utcoffset).toBe(hours)
})
