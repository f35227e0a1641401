/** The nats driver by itself: what a take that does not wait finds while the thread stands still. */
import { once } from "node:events"
import { type Socket, connect as socketTo } from "node:net"
import { connect as dial } from "nats"
import { expect, test } from "vitest"
import { Names } from "../../../../plugins/nats/mod.ts"
import type { Posting } from "../../../../runtime/transport/driver.ts"
import { block } from "../../../support/block.ts"
import { closing, driversOnNats, postingOf, publish, take, takeAll } from "./drivers.ts"

const nats = driversOnNats()

/** Tries, of which each may be too late for the moment that it needs. */
const TRIES = 100

/** A take that does not wait stays for 50 ms all the same; what is done in this time is done before its end. */
const SOON_MS = 20

/** Longer than a take stays. */
const STALL_MS = 100

/** Sends a task within the call: the client sends in a later step, in which other messages could be read. */
const sendNow = (socket: Socket, { queue, level, id, index, frame }: Posting): void => {
  const subject = new Names(nats.namespace).task("j", queue, level, id, index)
  socket.write(Buffer.concat([Buffer.from(`PUB ${subject} ${frame.length}\r\n`), frame, Buffer.from("\r\n")]))
}

test("a task that comes while the thread stands still is found", async () => {
  await using admin = closing(await dial({ servers: nats.server.url }))
  const names = new Names(nats.namespace)
  const driver = await nats.direct()
  const posting = postingOf()
  await publish(driver, posting)
  await take(driver)
  const socket = socketTo(nats.server.port, "127.0.0.1")
  nats.resources.defer(() => void socket.destroy())
  await once(socket, "data")
  socket.write('CONNECT {"verbose":false}\r\n')
  const info = `$JS.API.CONSUMER.INFO.${names.queueStream}.${names.consumer("q", posting.level)}`
  const isParked = async () => ((await admin.request(info)).json<{ num_waiting?: number }>().num_waiting ?? 0) > 0
  let found: ReadonlyArray<unknown> | undefined
  for (let tries = 0; tries < TRIES && found === undefined; tries++) {
    const began = performance.now()
    const taking = takeAll(driver, 1, 0)
    let parked = false
    while (!parked && performance.now() - began < SOON_MS) parked = await isParked()
    if (parked && performance.now() - began < SOON_MS) {
      sendNow(socket, postingOf())
      block(STALL_MS)
      found = await taking
    }
    await taking
  }
  expect(found).toHaveLength(1)
})
