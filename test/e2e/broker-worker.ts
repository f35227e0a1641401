/** A worker whose broker a test takes away, and checks of its jobs. */
import { actor, type Client, connect, type ServeOptions, type Service, serve } from "callboard"
import { expect } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { listingLog } from "../support/listing-log.ts"
import type { NatsServer } from "../support/servers/nats.ts"
import { eventually, isRunning } from "../support/servers/process.ts"
import type { scope } from "./boards.ts"

/** Keeps resources until the end of a test. Groups of tests run side by side, so each test ends only its own resources. */
export type Kept = Pick<ReturnType<typeof scope>, "keep">

/** Starts a worker with HTTP. It counts in `runs` how often each job ran to its end, and notes in `ended` when jobs did. */
export const startService = async ({ keep }: Kept, transport: string, options: ServeOptions = {}) => {
  const { lines, log } = listingLog()
  const runs = new Map<string, number>()
  const ended: Array<number> = []
  const gates = new Map<string, () => void>()
  const steps = actor("steps", {
    methods: {
      run: async (_, job) => {
        // A few hundred jobs of this length keep a worker busy for seconds.
        await new Promise((resolve) => setTimeout(resolve, 40))
        ended.push(performance.now())
        runs.set(job.id, (runs.get(job.id) ?? 0) + 1)
      },
      wait: (_, job) => new Promise<string>((resolve) => gates.set(job.id, () => resolve("waited"))),
    },
  })
  const service = keep(
    await serve({
      transport,
      actors: [steps],
      signals: false,
      http: { port: 0 },
      log,
      reconnect: { base: 0.02, cap: 0.2 },
      ...options,
    }),
  )
  await service.ready()
  const readiness = async () => (await fetch(`${service.url}/readyz`)).status
  return {
    service,
    lines,
    runs,
    ended,
    gates,
    red: (deadline = 60_000) =>
      eventually(async () => (await readiness()) === 503, { deadline, message: "the worker is not ready" }),
    green: (deadline = 60_000) =>
      eventually(async () => (await readiness()) === 200, { deadline, message: "the worker is ready" }),
  }
}

export const clientOf = async ({ keep }: Kept, url: string): Promise<Client> => keep(await connect(url))

/**
 * Stops a server softly; `restart` brings it back. A server that is killed instead forgets which tasks it handed over in the last
 * moments, and hands them over again.
 */
export const shutDown = async ({ pid }: NatsServer): Promise<void> => {
  process.kill(pid, "SIGTERM")
  await eventually(() => !isRunning(pid))
}

/** Submits one job under an id, again and again until it is accepted. Resolves with the id. */
export const persist = async (client: Client, task: string): Promise<string> => {
  const id = generateId()
  await eventually(() => client.submit(task, { id }), { deadline: 60_000, every: 20 })
  return id
}

/** Whether the worker holds no delivery, and the broker no task. */
export const isEmpty = async ({ client, worker }: Service): Promise<boolean> => {
  const queues = await client.queues()
  return worker?.describe().inFlight === 0 && queues.every(({ depth, inFlight }) => depth + inFlight === 0)
}

export const endedOnce = async (client: Client, ids: ReadonlyArray<string>): Promise<void> => {
  for (const id of ids) {
    const view = await client.job(id).find()
    expect(view.transitions.filter(({ state }) => state === "succeeded")).toHaveLength(1)
  }
}
