/** A board of its own for each test, and hands to do with its jobs what a worker would do. */
import { actor, connect, type Service, serve } from "callboard"
import { afterEach } from "vitest"
import type { Board } from "../../../runtime/board.ts"
import type { Client } from "../../../runtime/client/client.ts"
import { generateId } from "../../../runtime/id.ts"
import type { JobRecord } from "../../../runtime/protocol/record.ts"
import type { Delivery, Records } from "../../../runtime/transport.ts"

const open: Array<AsyncDisposable> = []
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]()
})

export const start = async (): Promise<Client & { readonly transport: string }> => {
  const transport = `memory://${generateId()}`
  const client = await connect(transport)
  open.push(client)
  return Object.assign(client, { transport })
}

export const work = async (transport: string, run: (input: unknown) => unknown): Promise<Service> => {
  const echo = actor("echo", { methods: { run } })
  const service = await serve({ transport, actors: [echo], signals: false, logLevel: "none" })
  open.push(service)
  await service.ready()
  return service
}

export const withRecords = (board: Board, change: Partial<Records>): Board => ({
  ...board,
  records: { ...board.records, ...change },
})

export const stored = async (client: Client, id: string): Promise<JobRecord> => {
  const found = await client.board.records.find(id)
  if (found === undefined) throw new Error(`there is no job ${id}`)
  return found.record
}

export const take = async (client: Client): Promise<Delivery> => {
  const [delivery] = await client.board.queue.pull({ queues: ["default"], max: 1, wait: 0 }, AbortSignal.timeout(5_000))
  if (delivery === undefined) throw new Error("there is nothing to take")
  return delivery
}
