/** A board with workers that the test plays itself, up to the moment at which they die, and with calls that fail on command. */
import { type Client, connect, type SubmissionFields, type SubmittedJob } from "callboard"
import type { Connection } from "../../../../../runtime/connection/connection.ts"
import { generateId } from "../../../../../runtime/id.ts"
import { EDGE_PREFIX, type Edge, parseEdge } from "../../../../../runtime/jobs/dependencies/edges.ts"
import { Sweep } from "../../../../../runtime/jobs/dependencies/sweep.ts"
import { postingOf } from "../../../../../runtime/protocol/headers.ts"
import type { JobRecord } from "../../../../../runtime/protocol/record.ts"
import type { State } from "../../../../../runtime/protocol/state.ts"
import type { Transport } from "../../../../../runtime/transport/job-store/transport.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import { messageOf, recordOf } from "../../../../kit/task.ts"
import { Faults } from "../../../../support/faults.ts"

export const HOUR = 3_600_000

export interface Bench extends AsyncDisposable {
  readonly client: Client
  /** The board of the client. */
  readonly connection: Connection
  /** The same board with these faults. */
  readonly faulty: Connection
  readonly faults: Faults
  submit(name: string, fields?: SubmissionFields): Promise<SubmittedJob>
  stateOf(job: { readonly id: string }): Promise<State>
  record(job: { readonly id: string }): Promise<JobRecord>
  /** Runs the task that is next in its queue, stores how it ended, and does nothing else: its worker dies then. */
  end(state: State, fields?: Partial<JobRecord>): Promise<JobRecord>
  /** One look of maintenance. */
  look(now?: number): Promise<unknown>
  edges(): Promise<ReadonlyArray<Edge>>
}

const never = new AbortController().signal

export const unavailable = (outcome: "none" | "unknown" = "none"): TransportError =>
  new TransportError("unavailable", "cut off", { outcome })

/** A fault of the `nth` call of a name, counted from now on. */
export const failing = (name: string, nth: number, error: () => Error = unavailable) => {
  let calls = 0
  const fault = {
    hasStruck: false,
    strike: (call: string) => {
      if (call !== name || ++calls !== nth) return
      fault.hasStruck = true
      throw error()
    },
  }
  return fault
}

export const openBench = async (url: string): Promise<Bench> => {
  const client = await connect(url)
  const { connection } = client
  const faults = new Faults()
  const onStatus: Transport["onStatus"] = (listener) => faults.listen(listener)
  const transport: Transport = Object.assign(Object.create(connection.transport), { onStatus })
  const faulty: Connection = {
    transport,
    jobs: faults.wrap("jobs", connection.jobs),
    store: faults.wrap("store", connection.store),
    broadcast: connection.broadcast,
    keepFailed: connection.keepFailed,
  }
  const record = async ({ id }: { readonly id: string }) => {
    const found = await connection.jobs.find(id)
    if (found === undefined) throw new Error(`there is no job ${id}`)
    return found.record
  }
  return {
    client,
    connection,
    faulty,
    faults,
    record,
    submit: (name, fields = {}) =>
      client.submit("step.run", { id: `${name}-${generateId()}`, input: { name }, ...fields }),
    stateOf: async (job) => (await record(job)).state,
    end: async (state, fields = {}) => {
      const [delivery] = await connection.jobs.take({ queues: ["default"], max: 1, wait: 5_000 }, never)
      if (delivery === undefined) throw new Error("nothing waits")
      const { token, fence, queue } = delivery
      const posting = postingOf(messageOf(delivery), queue)
      if (posting._tag === "Failure") throw new Error(posting.failure.message)
      const { message } = posting.success
      const ended = recordOf(posting.success, state, {
        fence,
        ...(state === "succeeded" ? {} : { message }),
        ...fields,
      })
      const [settled] = await connection.jobs.settle([{ token, record: ended, then: { kind: "ack" } }])
      if (settled?.status !== "ended") throw new Error(`it is ${settled?.status}`)
      return ended
    },
    look: (now = Date.now()) => new Sweep(connection).look(now),
    edges: async () => {
      const entries = await connection.store.list({ prefix: EDGE_PREFIX, limit: 10_000 })
      return entries.flatMap(({ key }) => parseEdge(key) ?? [])
    },
    [Symbol.asyncDispose]: () => client.close(),
  }
}
