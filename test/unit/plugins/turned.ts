/**
 * A process whose wall clock is set while tasks are under way, for tests: `turned.ts <url> <namespace> <milliseconds>`.
 * It prints what it saw, as one line of JSON.
 */
import { plugin as memory } from "../../../plugins/memory/mod.ts"
import { plugin as nats } from "../../../plugins/nats/mod.ts"
import { plugin as sqlite } from "../../../plugins/sqlite/mod.ts"
import type { Delivery, Driver, Posting } from "../../../runtime/transport/driver.ts"
import { decodeContent, toPosting } from "../../../runtime/transport/job-store/codec.ts"
import { idOf as idIn, taskOf } from "../../kit/task.ts"

const [url = "", namespace = "", turned = ""] = process.argv.slice(2)

const LEASE = 1_500
const wallClock = Date.now
const never = new AbortController().signal
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const plugins = { "memory:": memory, "nats:": nats, "sqlite:": sqlite }

const open = async (): Promise<Driver> => {
  const address = new URL(url)
  const found = Object.entries(plugins).find(([scheme]) => scheme === address.protocol)?.[1]
  if (found === undefined) throw new Error(`no plugin for ${url}`)
  return await found.connect(address, { namespace, lease: LEASE, name: "turned", timeout: 5_000 })
}

const posting = (id: string, queue: string, due?: number): Posting =>
  toPosting(taskOf({ id, queue, ...(due === undefined ? {} : { due }) }), wallClock())

const idOf = ({ content }: Delivery): string => idIn({ message: decodeContent(content) })

const take = async (driver: Driver, queue: string, wait: number): Promise<ReadonlyArray<Delivery>> =>
  (await driver.take({ queues: [queue], max: 10, wait, rotate: false }, never)).deliveries

/** What came to a pull, and after how many milliseconds. */
const pulled = async (driver: Driver, queue: string, wait: number) => {
  const start = performance.now()
  // Some drivers do not wait: they are asked again, as the runtime does.
  for (;;) {
    const left = wait - (performance.now() - start)
    const found = await take(driver, queue, Math.max(left, 0))
    const ms = Math.round(performance.now() - start)
    if (found.length > 0 || left <= 0 || driver.capabilities.waits) return { ids: found.map(idOf), ms }
    await sleep(20)
  }
}

const worker = await open()
/** Another worker on the same queues. */
const other = await open()
/** Extends leases of deliveries that it has not received, like the lease thread of a worker. */
const keeper = await open()
const store = worker.store
if (store === undefined) throw new Error("this driver has no store")

await worker.publish([posting("held-1", "held"), posting("held-2", "held"), posting("late", "late")])
await worker.publish([posting("dead", "dead"), posting("noon", "noon", wallClock() + 1_800_000)])
const [first, second] = await take(worker, "held", 5_000)
const [late] = await take(worker, "late", 5_000)
await take(other, "dead", 5_000)
if (first === undefined || second === undefined || late === undefined) throw new Error("no task came")
await store.write([{ key: "alive", value: new Uint8Array(1), ttl: 20_000 }])

/** These wait while the clock is set. */
const again = pulled(other, "held", 4_000)
const dead = pulled(other, "dead", 20_000)
const empty = pulled(other, "empty", 2_000)
const noon = pulled(other, "noon", 9_000)
const soon = pulled(other, "soon", 20_000)
await sleep(300)

Date.now = () => wallClock() + Number(turned)
const set = performance.now()

// The outcome of this one comes right after.
const settled = await worker.commit([{ id: "late", task: { kind: "ack", token: late.token } }])
const alive = await store.get(["alive"])
await worker.publish([posting("soon", "soon")])

const kept: Array<boolean> = []
const tokens = [first.token, second.token]
for (let round = 0; performance.now() - set < 3 * LEASE; round++) {
  // A worker extends its leases now and then: the clock is set in between.
  await sleep(LEASE / 4)
  kept.push(...(await (round % 2 === 0 ? keeper : worker).extend(tokens)))
}
const ended = await worker.commit(
  ["held-1", "held-2"].map((id, at) => ({ id, task: { kind: "ack", token: tokens[at] ?? "" } })),
)

const now = await store.now()
await worker.publish([posting("due", "due", now + 1_500)])
const due = await pulled(other, "due", 20_000)
await worker.publish([posting("back", "back")])
const [given] = await take(worker, "back", 5_000)
await worker.commit([{ id: "back", task: { kind: "hand-back", token: given?.token ?? "", delay: 1_500 } }])
const back = await pulled(other, "back", 20_000)
const quick = await pulled(other, "empty", 500)

const seen = {
  kept: kept.every((each) => each),
  settled,
  ended,
  alive: alive.map((entry) => entry !== undefined),
  ...{
    again: await again,
    dead: await dead,
    empty: await empty,
    soon: await soon,
    noon: (await noon).ids,
    due,
    back,
    quick,
  },
}
console.log(JSON.stringify(seen))
await Promise.all([worker, other, keeper].map((each) => each.close()))
process.exit(0)
