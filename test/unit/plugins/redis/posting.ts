/** A task as the runtime gives it to the driver, and the options of a connection. */
import type { Posting } from "../../../../runtime/transport/driver.ts"
import type { ConnectOptions } from "../../../../runtime/transport/mod.ts"

export const options = (namespace: string, lease = 30_000): ConnectOptions => ({
  namespace,
  lease,
  name: "test",
  timeout: 5_000,
})

export const posting = (id: string, queue = "q", level = 9): Posting => ({
  id,
  key: `${id}/1/0`,
  queue,
  level,
  index: { state: "queued", queue, task: "t", at: Date.now() },
  frame: new Uint8Array(1),
  message: {
    headers: { id, task: "t", lang: "js" },
    properties: { content_type: "application/json", content_encoding: "utf-8", priority: level },
    body: new TextEncoder().encode("[[],{},{}]"),
  },
})
