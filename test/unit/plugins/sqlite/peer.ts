/**
 * A process of its own on a board, for tests: `peer.ts <file> <role> …`. Every line that it prints is a fact by the time it
 * is printed.
 *
 * publish <count>        publishes one task after another; prints each id once it is accepted
 * insist                 publishes without an end; prints each id once it is accepted, or refused
 * work <queue>           takes and acks until nothing comes for a second; prints each id once that is committed
 * finish <queue>         takes one task at a time and ends its job as succeeded until nothing comes for a second
 * hold <queue> <count>   takes once and keeps what came; prints the ids
 * hear <topic>           prints each broadcast, each change of a job and each change of the store
 * answer <topic>         answers each broadcast on that topic with one on "answer", of the same payload
 * talk <topic>           broadcasts without an end, every few milliseconds
 * freeze                 begins to write, and stops there as if by SIGSTOP, until it is continued; then it goes on writing
 * idle                   listens for jobs, then has nothing left to do
 */
import { writeSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { plugin } from "../../../../plugins/sqlite/mod.ts"
import { ack, idOf, never, outcome, publish as publishTo, take } from "./helpers.ts"

const [file = "", role = "", ...rest] = process.argv.slice(2)

const driver = await plugin.connect(new URL(`sqlite:${file}`), {
  namespace: "test",
  lease: 1_000,
  name: role,
  timeout: 5_000,
})
const { store, broadcast } = driver

const publish = async (count: number): Promise<void> => {
  for (let each = 0; each < count; each++) {
    const id = crypto.randomUUID()
    const [receipt] = await publishTo(driver, id)
    console.log(receipt?.status, id)
  }
}

const insist = async (): Promise<void> => {
  for (;;) {
    const id = crypto.randomUUID()
    const [receipt] = await publishTo(driver, id).catch(() => [])
    console.log(receipt?.status === "stored" ? "stored" : "refused", id)
    if (receipt?.status !== "stored") await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

const work = async (name: string): Promise<void> => {
  console.log("ready")
  for (;;) {
    const deliveries = await take(driver, { queue: name, max: 20, wait: 1_000 })
    if (deliveries.length === 0) return
    const committed = await driver.commit(deliveries.map(ack))
    deliveries.forEach((delivery, at) => {
      console.log(committed[at]?.status, idOf(delivery))
    })
  }
}

const finish = async (name: string): Promise<void> => {
  console.log("ready")
  for (;;) {
    const [delivery] = await take(driver, { queue: name, max: 1, wait: 1_000 })
    if (delivery === undefined) return
    await driver.commit([outcome(delivery)])
  }
}

const hold = async (name: string, count: number): Promise<void> => {
  const deliveries = await take(driver, { queue: name, max: count, wait: 5_000 })
  for (const delivery of deliveries) console.log("holds", idOf(delivery))
  console.log("ready")
  setInterval(() => undefined, 1_000)
}

const hear = async (topic: string): Promise<void> => {
  await broadcast?.listen(topic, (payload) => console.log("broadcast", new TextDecoder().decode(payload)), never)
  await driver.listen({ kind: "jobs" }, (news) => console.log(news.kind, "id" in news ? news.id : ""), never)
  await store.watch?.("", ({ key, value }) => console.log("store", key, value?.length ?? "gone"), never)
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

const freeze = async (): Promise<void> => {
  using other = new DatabaseSync(file)
  other.exec("BEGIN IMMEDIATE")
  writeSync(process.stdout.fd, "frozen\n")
  process.kill(process.pid, "SIGSTOP")
  other.exec("COMMIT")
  await publish(1)
}

const idle = async (): Promise<void> => {
  await driver.listen({ kind: "jobs" }, () => undefined, never)
  await take(driver, { wait: 300 })
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
else if (role === "freeze") await freeze()
else if (role === "talk") await talk(first)
else await idle()
if (["publish", "work", "finish", "freeze"].includes(role)) await driver.close()
