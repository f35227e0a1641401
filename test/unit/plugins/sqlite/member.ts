/**
 * A process of its own on a board, for tests: `member.ts <file> <role> …`. Every line that it prints is a fact by the time it
 * is printed.
 *
 * publish <count>        publishes one task after another; prints each id once it is accepted
 * insist                 publishes without an end; prints each id once it is accepted, or refused
 * work <queue>           pulls and acks until nothing comes for a second; prints each id once it is settled
 * finish <queue>         pulls one task at a time and ends its job as succeeded (task and id are one word), until nothing comes for a second
 * hold <queue> <count>   pulls once and keeps what came; prints the ids
 * hear <topic>           prints each broadcast, each change of a record and each change of the store
 * answer <topic>         answers each broadcast on that topic with one on "answer", of the same payload
 * talk <topic>           broadcasts without an end, every few milliseconds
 * idle                   watches records, then has nothing left to do
 */
import { plugin } from "../../../../plugins/sqlite/mod.ts"
import { isUndecodable } from "../../../../runtime/protocol/message.ts"
import type { Delivery } from "../../../../runtime/transport/mod.ts"
import { recordOf, taskOf } from "../../../kit/task.ts"

const [file = "", role = "", ...rest] = process.argv.slice(2)
const never = new AbortController().signal

const transport = await plugin.connect(new URL(`sqlite:${file}`), {
  namespace: "test",
  lease: 1_000,
  name: role,
  timeout: 5_000,
})
const { queue, records, store, broadcast } = transport

const idOf = ({ message }: Delivery): string => (isUndecodable(message) ? "?" : String(message.headers["id"]))

const publish = async (count: number): Promise<void> => {
  for (let each = 0; each < count; each++) {
    const id = crypto.randomUUID()
    const [receipt] = await queue.publish([taskOf({ id, queue: "q" })])
    console.log(receipt?.status, id)
  }
}

const insist = async (): Promise<void> => {
  for (;;) {
    const id = crypto.randomUUID()
    const [receipt] = await queue.publish([taskOf({ id, queue: "q" })]).catch(() => [])
    console.log(receipt?.status === "stored" ? "stored" : "refused", id)
    if (receipt?.status !== "stored") await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

const work = async (name: string): Promise<void> => {
  console.log("ready")
  for (;;) {
    const deliveries = await queue.pull({ queues: [name], max: 20, wait: 1_000 }, never)
    if (deliveries.length === 0) return
    const settled = await queue.settle(deliveries.map(({ token }) => ({ token, then: { kind: "ack" as const } })))
    deliveries.forEach((delivery, at) => {
      console.log(settled[at]?.status, idOf(delivery))
    })
  }
}

const finish = async (name: string): Promise<void> => {
  console.log("ready")
  for (;;) {
    const [delivery] = await queue.pull({ queues: [name], max: 1, wait: 1_000 }, never)
    if (delivery === undefined) return
    const id = idOf(delivery)
    const record = recordOf(taskOf({ id, task: id, queue: name }), "succeeded", { fence: delivery.fence })
    await queue.settle([{ token: delivery.token, record, then: { kind: "ack" } }])
  }
}

const hold = async (name: string, count: number): Promise<void> => {
  const deliveries = await queue.pull({ queues: [name], max: count, wait: 5_000 }, never)
  for (const delivery of deliveries) console.log("holds", idOf(delivery))
  console.log("ready")
  setInterval(() => undefined, 1_000)
}

const hear = async (topic: string): Promise<void> => {
  await broadcast?.listen(topic, (payload) => console.log("broadcast", new TextDecoder().decode(payload)), never)
  await records?.watch({}, ({ id, state }) => console.log("record", id, state), never)
  await store?.watch("", ({ key, value }) => console.log("store", key, value?.length ?? "gone"), never)
  console.log("ready")
  setInterval(() => undefined, 1_000)
}

const answer = async (topic: string): Promise<void> => {
  await broadcast?.listen(topic, (payload) => void broadcast.send("answer", payload), never)
  console.log("ready")
  setInterval(() => undefined, 1_000)
}

const talk = async (topic: string): Promise<void> => {
  console.log("ready")
  for (;;) {
    await broadcast?.send(topic, new Uint8Array(1))
    await new Promise((resolve) => setTimeout(resolve, 3))
  }
}

const idle = async (): Promise<void> => {
  await records?.watch({}, () => undefined, never)
  await queue.pull({ queues: ["q"], max: 1, wait: 300 }, never)
  console.log("ready")
}

const [first = "", second = "1"] = rest
if (role === "publish") await publish(Number(first))
else if (role === "insist") await insist()
else if (role === "work") await work(first)
else if (role === "finish") await finish(first)
else if (role === "hold") await hold(first, Number(second))
else if (role === "hear") await hear(first)
else if (role === "answer") await answer(first)
else if (role === "talk") await talk(first)
else await idle()
if (role === "publish" || role === "work" || role === "finish") await transport.close()
