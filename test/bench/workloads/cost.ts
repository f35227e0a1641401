/** What a job, and a second of an idle worker, cost: the figures of docs/capacity.md. */
import {
  clusterMetered,
  type MeteredKind,
  memoryMetered,
  natsMetered,
  postgresMetered,
  sqliteMetered,
} from "../harness/meters.ts"
import { figuresOf, measure, processorOf, ready, startProgram } from "../harness/program.ts"
import { ending } from "../harness/workers.ts"
import { type Contender, processorColumns, type Workload } from "../harness/workload.ts"
import { dividedByJobs } from "../report/figures.ts"
import type { Column } from "../report/result.ts"
import type { Form } from "./forms.ts"

/** More say no more about bytes and processor time. */
const MAX_JOBS = 20_000
/** One at a time. */
const MAX_ALONE = 1_000
const IDLE_SECONDS = 20

const counters: ReadonlyArray<Column> = [
  { key: "clientMessages", title: "client msgs" },
  { key: "workerMessages", title: "worker msgs" },
  { key: "bytesOut", title: "bytes out" },
  { key: "bytesIn", title: "bytes in" },
  { key: "transactions", title: "transactions" },
  { key: "writes", title: "writes" },
  { key: "disk", title: "disk B" },
  { key: "kept", title: "kept B" },
]

const row = (name: string, kind: MeteredKind, ...args: readonly [string, number, number?]): Contender => ({
  name,
  durability: kind.durability,
  run: async () => {
    await using board = await kind.open()
    const { brokers, url, meter } = board
    const program = startProgram("programs/cost.ts", [url, ...args.filter((arg) => arg !== undefined)])
    const figures = await measure(program, { ...(brokers.length === 0 ? {} : { broker: brokers }), meter })
    return dividedByJobs(
      figures,
      counters.map(({ key }) => key),
    )
  },
})

/** Several programs at a time on one board, each with a queue, or with a namespace, and so with streams, of its own. */
const shards = (
  name: string,
  kind: MeteredKind,
  of: "queue" | "namespace",
  count: number,
  jobs: number,
): Contender => ({
  name: `${name}: batches, ${count} ${of}s`,
  durability: kind.durability,
  run: async () => {
    await using board = await kind.open()
    const programs = Array.from({ length: count }, (_, at) => {
      const own = of === "queue" ? [`shard-${at}`] : ["default", `shard-${at}`]
      return startProgram("programs/cost.ts", [board.url, "batches", Math.floor(jobs / count), 1, ...own])
    })
    return await ending(programs, async () => {
      await Promise.all(programs.map(ready))
      const used = processorOf({ broker: board.brokers, clients: programs.map(({ pid }) => pid) })
      for (const program of programs) program.write("go\n")
      const figures = await Promise.all(programs.map(figuresOf))
      const sum = (key: string) => figures.reduce((total, each) => total + (each[key] ?? Number.NaN), 0)
      return { jobs: sum("jobs"), perSecond: sum("perSecond"), ...used() }
    })
  },
})

const nats = natsMetered({})
const natsSynced = natsMetered({ sync: "always" })
const each: ReadonlyArray<readonly [name: string, kind: MeteredKind]> = [
  ["memory", memoryMetered],
  ["sqlite", sqliteMetered],
  ["nats", nats],
  ["nats, sync always", natsSynced],
  ["three nats", clusterMetered],
  ["postgres", postgresMetered],
]
const shared = each.filter(([, kind]) => kind !== memoryMetered)

export const cost = (form: Form): Workload => {
  const jobs = Math.min(form.jobs, MAX_JOBS)
  const alone = Math.min(form.trips, MAX_ALONE)
  return {
    name: "cost",
    title: "What a job costs",
    note: `Per job of 256 bytes that does nothing: ${jobs.toLocaleString("en")} in batches of 1,000, or left to wait; ${alone.toLocaleString("en")} one at a time. Worker and client have a connection each, in one process. Bytes are those of bodies and headers. One round.`,
    main: "both",
    better: "less",
    rounds: 1,
    columns: [{ key: "perSecond", title: "jobs/s" }, ...processorColumns, ...counters],
    contenders: [
      ...each.map(([name, kind]) => row(`${name}: batches`, kind, "batches", jobs)),
      ...(["queue", "namespace"] as const).flatMap((of) => [
        shards("nats", nats, of, 2, jobs),
        shards("three nats", clusterMetered, of, 3, jobs),
      ]),
      ...shared.map(([name, kind]) => row(`${name}: waiting`, kind, "waiting", jobs)),
      ...each.map(([name, kind]) => row(`${name}: alone`, kind, "alone", alone)),
      ...shared.flatMap(([name, kind]) =>
        ["result", "events"].map((traffic) => row(`${name}: ${traffic}`, kind, traffic, alone)),
      ),
    ],
  }
}

export const idleCost = (): Workload => ({
  name: "cost-idle",
  title: "What an idle worker costs",
  note: `Per second, over ${IDLE_SECONDS} seconds. One round.`,
  main: "both",
  better: "less",
  rounds: 1,
  columns: [
    { key: "client", title: "worker CPU µs" },
    { key: "broker", title: "broker CPU µs" },
    ...counters.filter(({ key }) => key !== "clientMessages" && key !== "kept"),
  ],
  contenders: [
    ...each.map(([name, kind]) => row(name, kind, "idle", IDLE_SECONDS)),
    row("nats, 5 queues", nats, "idle", IDLE_SECONDS, 5),
    row("nats, 10 bands", natsMetered({ query: "?bands=10" }), "idle", IDLE_SECONDS),
    row("sqlite, 5 queues", sqliteMetered, "idle", IDLE_SECONDS, 5),
    row("postgres, 5 queues", postgresMetered, "idle", IDLE_SECONDS, 5),
    row("sqlite, 10,000 schedules", sqliteMetered, "schedules", IDLE_SECONDS),
    row("nats, 10,000 schedules", nats, "schedules", IDLE_SECONDS),
  ],
})
