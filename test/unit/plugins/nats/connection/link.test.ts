/** In which order messages go out. */
import { connect } from "nats"
import { expect, test } from "vitest"
import { NatsLink } from "../../../../../plugins/nats/connection/link.ts"
import { startNats } from "../../../../support/servers/nats.ts"
import { eventually } from "../../../../support/servers/process.ts"

test("what can wait goes out before the next message, and without one at the end of the turn", async () => {
  await using server = await startNats()
  const link = new NatsLink({ connection: await connect({ servers: server.url }), owned: true })
  const came: Array<string> = []
  link.subscribe("*", ({ subject }) => came.push(subject))
  const send = (subject: string) => link.send(subject, new Uint8Array())
  link.soon(() => send("first"))
  link.soon(() => send("second"))
  send("third")
  link.soon(() => send("fourth"))
  await eventually(async () => came.length === 4, { every: 1 })
  expect(came).toEqual(["first", "second", "third", "fourth"])
  link.soon(() => send("fifth"))
  await link.flush()
  expect(came.at(-1)).toBe("fifth")
  await link.close()
})
