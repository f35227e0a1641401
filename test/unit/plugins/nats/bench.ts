/** A transport on a server of its own, with a client beside it that changes streams: for the tests of faults. */
import { connect as dial, type NatsConnection } from "nats"
import { expect } from "vitest"
import { Names } from "../../../../plugins/nats/mod.ts"
import type { JobPosting } from "../../../../runtime/protocol/message.ts"
import type { JobDelivery, Transport } from "../../../../runtime/transport/job-store/transport.ts"
import type { ConnectOptions } from "../../../../runtime/transport/mod.ts"
import { taskOf } from "../../../kit/task.ts"
import type { NatsServer } from "../../../support/servers/nats.ts"
import { connectNats } from "./connect-nats.ts"

export const never = new AbortController().signal
export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

let count = 0
export interface Bench extends AsyncDisposable {
  readonly server: NatsServer
  readonly transport: Transport
  readonly names: Names
  readonly options: ConnectOptions
  /** A client of the server for the test itself, to inspect and change the streams. */
  readonly client: NatsConnection
  api(name: string, body?: unknown): Promise<Record<string, unknown>>
  one(queue?: string, wait?: number): Promise<JobDelivery>
}

export const setup = async (server: NatsServer, fields: Partial<ConnectOptions> = {}): Promise<Bench> => {
  const namespace = `faults-${process.pid}-${++count}`
  const given = { namespace, lease: 30_000, name: "test", timeout: 5_000, ...fields }
  const transport = await connectNats(server.url, given)
  const client = await dial({ servers: server.url, maxReconnectAttempts: -1, reconnectTimeWait: 100 })
  return {
    server,
    transport,
    client,
    names: new Names(namespace),
    options: given,
    api: async (name, body = {}) => (await client.request(`$JS.API.${name}`, JSON.stringify(body))).json(),
    one: async (queue = "q", wait = 5_000) => {
      const end = Date.now() + wait
      while (Date.now() < end) {
        const [delivery] = await transport.jobs.take({ queues: [queue], max: 1, wait: end - Date.now() }, never)
        if (delivery !== undefined) return delivery
      }
      throw new Error(`nothing came from ${queue} within ${wait} ms`)
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([transport.close(), client.close()])
    },
  }
}

export const stored = async ({ transport }: Bench, ...postings: ReadonlyArray<JobPosting>): Promise<void> => {
  expect(await transport.jobs.publish(postings)).toEqual(postings.map(() => ({ status: "stored" })))
}

export const task = (fields: Partial<Parameters<typeof taskOf>[0]> = {}): JobPosting =>
  taskOf({ id: `job-${++count}`, queue: "q", ...fields })

/** Repeats a call until it succeeds. */
export const until = async <T>(what: string, ask: () => Promise<T | undefined | false>, ms = 60_000): Promise<T> => {
  for (const end = Date.now() + ms; Date.now() < end; await sleep(20)) {
    const answer = await ask().catch(() => undefined)
    if (answer !== undefined && answer !== false) return answer
  }
  throw new Error(`gave up after ${ms} ms, awaiting ${what}`)
}
