/** A board of its own for each test, and hands to do with its jobs what a worker would do. */
import { actor, connect, type Service, serve } from "callboard"
import type { Client } from "../../../../../runtime/client/client.ts"
import type { Connection } from "../../../../../runtime/connection/connection.ts"
import { generateId } from "../../../../../runtime/id.ts"
import type { JobRecord } from "../../../../../runtime/protocol/record.ts"
import type { JobDelivery, Jobs } from "../../../../../runtime/transport/job-store/transport.ts"
import { keep } from "../../../../support/servers/keep.ts"

export const start = async (): Promise<Client & { readonly transport: string }> => {
  const transport = `memory://${generateId()}`
  const client = keep(await connect(transport))
  return Object.assign(client, { transport })
}

export const work = async (transport: string, run: (input: unknown) => unknown): Promise<Service> => {
  const echo = actor("echo", { methods: { run } })
  const service = keep(await serve({ transport, actors: [echo], signals: false, logLevel: "none" }))
  await service.ready()
  return service
}

export const withOwnJobs = (connection: Connection, change: Partial<Jobs>): Connection => ({
  ...connection,
  jobs: { ...connection.jobs, ...change },
})

export const stored = async (client: Client, id: string): Promise<JobRecord> => {
  const found = await client.connection.jobs.find(id)
  if (found === undefined) throw new Error(`there is no job ${id}`)
  return found.record
}

export const take = async (client: Client): Promise<JobDelivery> => {
  const [delivery] = await client.connection.jobs.take(
    { queues: ["default"], max: 1, wait: 0 },
    AbortSignal.timeout(5_000),
  )
  if (delivery === undefined) throw new Error("there is nothing to take")
  return delivery
}
