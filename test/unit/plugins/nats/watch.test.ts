/** Subscriptions that go out with the next message. */
import { connect } from "nats"
import { expect, test } from "vitest"
import { NatsLink } from "../../../../plugins/nats/connection/link.ts"
import { Subscriptions } from "../../../../plugins/nats/watch.ts"
import { startNats } from "../../../support/servers/nats.ts"
import { eventually } from "../../../support/servers/process.ts"

test("one that comes too late for a connection of the application keeps nothing else from being done", async () => {
  await using server = await startNats()
  const connection = await connect({ servers: server.url })
  await using _ = { [Symbol.asyncDispose]: () => connection.close() }
  const link = new NatsLink({ connection, owned: false })
  const subscriptions = new Subscriptions(link)
  const never = new AbortController().signal
  const listen = (subject: string) => subscriptions.listen(subject, () => undefined, never, "jobs")
  // The first one shows that such subjects are allowed: the others are not waited for.
  await listen("jobs.1")
  await listen("jobs.2")
  let isDone = false
  link.soon(() => {
    isDone = true
  })
  const drained = connection.drain()
  await eventually(() => isDone)
  await drained
  await expect(listen("jobs.3")).rejects.toMatchObject({ reason: "closed" })
})
