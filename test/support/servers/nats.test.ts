import { connect } from "nats"
import { expect, test } from "vitest"
import { type NatsServer, startNats } from "./nats.ts"
import { isRunning } from "./process.ts"

async function publish(server: NatsServer, subject: string): Promise<number> {
  const client = await connect({ servers: server.url, timeout: 2_000 })
  try {
    const manager = await client.jetstreamManager()
    await manager.streams.add({ name: "kept", subjects: ["kept.>"] })
    await client.jetstream().publish(subject, "x")
    return (await manager.streams.info("kept")).state.messages
  } finally {
    await client.close()
  }
}

test("a server that is killed keeps its port and its store", async () => {
  await using server = await startNats({ syncInterval: "always", config: "max_payload: 2MB" })
  const { pid, port } = server
  expect(await publish(server, "kept.one")).toBe(1)
  await server.kill()
  await expect(publish(server, "kept.lost")).rejects.toThrow()
  await server.restart()
  expect(server.pid).not.toBe(pid)
  expect(server.port).toBe(port)
  expect(await publish(server, "kept.two")).toBe(2)
  await server.restart()
  expect(await publish(server, "kept.three")).toBe(3)
})

test("a paused server answers again once it is resumed", async () => {
  await using server = await startNats({ jetstream: false })
  const client = await connect({ servers: server.url })
  server.pause()
  let answered = false
  const flushed = client.flush().then(() => {
    answered = true
  })
  await new Promise((resolve) => setTimeout(resolve, 150))
  expect(answered).toBe(false)
  server.resume()
  await flushed
  await client.close()
})

test("two servers at once have ports of their own, and stop", async () => {
  const [one, two] = await Promise.all([startNats(), startNats()])
  expect(one.port).not.toBe(two.port)
  one.pause()
  await Promise.all([one.stop(), two.stop()])
  expect(isRunning(one.pid) || isRunning(two.pid)).toBe(false)
})

test("an old release is to be had", async () => {
  await using server = await startNats({ release: "old" })
  const client = await connect({ servers: server.url })
  expect(client.info?.version).toBe(server.version)
  expect(Number(server.version.split(".")[1])).toBeLessThan(12)
  await client.close()
})
