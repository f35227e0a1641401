/** Messages of Celery's programs under the ids of jobs that are there. */
import { test } from "vitest"
import { expectKeptApart } from "../../../support/external-tasks.ts"
import { ownServer } from "./own-server.ts"

const redis = ownServer()

test("what comes under the id of another job is a dead letter, and leaves the job as it is", async () => {
  let count = 0
  await expectKeptApart({ transport: redis.server.url }, async ({ headers, properties, body }) => {
    const { content_type, content_encoding, ...rest } = properties
    const more = { delivery_mode: 2, delivery_info: { exchange: "", routing_key: "till" }, priority: 0 }
    const envelope = {
      body: Buffer.from(body).toString("base64"),
      "content-encoding": content_encoding,
      "content-type": content_type,
      headers,
      properties: { ...rest, ...more, body_encoding: "base64", delivery_tag: `tag-${count++}` },
    }
    await redis.ask("LPUSH", "till", JSON.stringify(envelope))
  })
})
