/** A board of its own for each test; transports that are late, deaf or down. */
import { connect } from "callboard"
import { expect } from "vitest"
import type { Client } from "../../../../../runtime/client/client.ts"
import type { Connection } from "../../../../../runtime/connection/connection.ts"
import { generateId } from "../../../../../runtime/id.ts"
import { type JobRecord, step } from "../../../../../runtime/protocol/record.ts"
import type { Jobs } from "../../../../../runtime/transport/job-store/transport.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import { keep } from "../../../../support/servers/keep.ts"

export const start = async (): Promise<Client> => {
  const client = keep(await connect(`memory://${generateId()}`))
  return client
}

/** The same board with other records: what a transport that is late, deaf or down would say. */
export const withOwnJobs = (connection: Connection, change: Partial<Jobs>): Connection => ({
  ...connection,
  jobs: { ...connection.jobs, ...change },
})

/** A board whose watches are counted until they end. */
export const watched = (connection: Connection) => {
  const watches = new Set<AbortSignal>()
  const listening: Jobs["watch"] = async (filter, listener, signal) => {
    watches.add(signal)
    signal.addEventListener("abort", () => watches.delete(signal))
    return connection.jobs.watch(filter, listener, signal)
  }
  return { watches, connection: withOwnJobs(connection, { watch: listening }) }
}

/** Takes one task and settles it as a worker would. */
export const settleNext = async ({ connection }: Client, change: (record: JobRecord) => JobRecord) => {
  const [delivery] = await connection.jobs.take({ queues: ["default"], max: 1, wait: 0 }, new AbortController().signal)
  if (delivery === undefined || "undecodable" in delivery.message) throw new Error("there is nothing to take")
  const found = await connection.jobs.find(String(delivery.message.headers["id"]))
  if (found === undefined) throw new Error("the job has no record")
  const { message: _message, ...record } = found.record
  const [settled] = await connection.jobs.settle([
    { token: delivery.token, record: { ...change(record), fence: delivery.fence }, then: { kind: "ack" } },
  ])
  expect(settled).toEqual({ status: "ended" })
}
export const succeed = (client: Client, result: unknown = null) =>
  settleNext(client, (record) => ({
    ...step(record, { at: Date.now(), state: "succeeded" }),
    endedAt: Date.now(),
    keepMs: 60_000,
    result,
  }))

export const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
export const down = () => Promise.reject(new TransportError("unavailable", "down"))
