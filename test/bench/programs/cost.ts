/**
 * Jobs of one kind of traffic, with the messages of their connections counted where the transport is nats: a worker and a
 * client that submits, each on a connection of its own. What the broker does meanwhile is read by the harness.
 *
 * `cost.ts <transport> <traffic> <count> [queues] [queue of the jobs] [namespace]`, with the traffic
 * - `batches`: jobs in batches of 1,000, as fast as they go
 * - `waiting`: the same without a worker, so that the jobs wait
 * - `alone`: one job at a time, which nothing waits for
 * - `result`, `events`: the same with a client that waits for the result, or follows the events of the job
 * - `idle`: seconds without a job, with a worker of so many queues
 * - `schedules`: the same beside ten thousand schedules, none of which is due
 */
import { actor, connect, serve } from "callboard"
import { connect as connectNats, type NatsConnection } from "nats"
import { begin, counter, inBatches, nap, PAYLOAD, report } from "./program.js"

const [
  transport = "memory:",
  traffic = "batches",
  countText = "20000",
  queuesText = "1",
  queue = "default",
  namespace,
] = process.argv.slice(2)
const count = Number(countText)
const board = namespace === undefined ? {} : { namespace }

/** A moment in which what belongs to the warm-up comes to its end. */
const SETTLING_MS = 1_000

const connections: { worker?: NatsConnection; client?: NatsConnection } = {}

/** A connection of its own that counts, or the URL where the transport is not nats. */
const open = async (side: "worker" | "client"): Promise<string | NatsConnection> => {
  if (!transport.startsWith("nats:")) return transport
  const [hosts = ""] = transport.slice("nats://".length).split("?")
  const connection = await connectNats({ servers: hosts.split(",") })
  connections[side] = connection
  return connection
}

/** What has gone over the connections so far. Bytes are those of bodies and headers, without subjects. */
const counted = (): Readonly<Record<string, number>> => {
  const { worker, client } = connections
  if (worker === undefined && client === undefined) return {}
  const [ofWorker, ofClient] = [worker?.stats(), client?.stats()]
  return {
    clientMessages: (ofClient?.outMsgs ?? 0) + (ofClient?.inMsgs ?? 0),
    workerMessages: (ofWorker?.outMsgs ?? 0) + (ofWorker?.inMsgs ?? 0),
    bytesOut: (ofWorker?.outBytes ?? 0) + (ofClient?.outBytes ?? 0),
    bytesIn: (ofWorker?.inBytes ?? 0) + (ofClient?.inBytes ?? 0),
  }
}

// The first client by URL makes the streams, with the options of the URL.
await (await connect(transport, board)).close()

const noop = actor("noop", { methods: { run: async (input: { n: number }) => ({ n: input.n }) } })
const settled = counter()
const others = Array.from({ length: Number(queuesText) - 1 }, (_, at) => `other-${at + 1}`)
const service =
  traffic === "waiting"
    ? undefined
    : await serve({
        transport: await open("worker"),
        ...board,
        actors: [noop],
        queues: [queue, ...others],
        concurrency: traffic === "batches" ? 200 : 4,
        logLevel: "warn",
        signals: false,
        onSettled: settled.add,
      })
await service?.ready()
// No other connection sees what is in memory.
const client = transport === "memory:" && service ? service.client : await connect(await open("client"), board)

const task = (n: number) => ({ task: "noop.run", queue, input: { n, payload: PAYLOAD } })

const batches = (jobs: number): Promise<void> =>
  inBatches(jobs, async (from, size) => {
    const tasks = Array.from({ length: size }, (_, at) => task(from + at))
    for (const answer of await client.submitMany(tasks)) if (answer instanceof Error) throw answer
  })

/** One job, until it has settled; and until the client knows, where it waits. */
const one = async (n: number): Promise<void> => {
  const done = settled.reach(1)
  const job = await client.submit("noop.run", { queue, input: { n, payload: PAYLOAD } })
  if (traffic === "result") await job.result()
  if (traffic === "events") await Array.fromAsync(job.events())
  await done
}

const isIdle = traffic === "idle" || traffic === "schedules"
const SCHEDULES = 10_000

if (traffic === "schedules") {
  await inBatches(SCHEDULES, async (from, size) => {
    const names = Array.from({ length: size }, (_, at) => `schedule-${from + at}`)
    await Promise.all(names.map((name) => client.schedules.create(name, { cron: "0 0 29 2 *", task: "noop" })))
  })
}

const run = async (jobs: number): Promise<void> => {
  if (isIdle) return await nap(jobs * 1_000)
  if (traffic === "waiting") return await batches(jobs)
  if (traffic === "batches") {
    const done = settled.reach(jobs)
    await batches(jobs)
    await done
    return
  }
  for (let n = 0; n < jobs; n++) await one(n)
}

await run(isIdle ? 2 : Math.min(traffic === "batches" ? 5_000 : 100, count))
await nap(SETTLING_MS)
await begin()
const before = counted()
const began = performance.now()
await run(count)
const seconds = (performance.now() - began) / 1_000
const after = Object.entries(counted()).map(([key, value]) => [key, value - (before[key] ?? 0)])
report({ jobs: count, perSecond: count / seconds, ...Object.fromEntries(after) })
