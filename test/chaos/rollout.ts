/**
 * Rolling deploys: two versions of a service side by side on one queue, under load. The newer version has a new actor and a new
 * method, lacks an actor, and has renamed one. The workers change from one version to the other one by one, and back again; at
 * every moment at least one worker of each version runs.
 */
import { type ActorDefinition, actor, CallboardError, type Client, type Service, serve } from "callboard"
import { eventually } from "../support/servers/process.ts"
import { connectWhenUp } from "./connecting.ts"

export interface RolloutOptions {
  /** URL of the transport. */
  readonly url: string
  /** Seconds in which tasks are submitted. A busy machine needs longer for `leastTasks` and `leastReplaced`, and gets it. */
  readonly seconds: number
  readonly leastTasks: number
  readonly leastReplaced: number
  readonly tasksPerSecond: number
  /** Milliseconds after which a worker is replaced by one of the other version, again and again. */
  readonly replaceEveryMs: number
  /** How long all jobs may take to end after the last submission, in milliseconds. */
  readonly restMs: number
}

export interface RolloutReport {
  readonly submitted: number
  readonly replaced: number
  /** A line for each job that did not succeed in one run, in a worker that serves its task. */
  readonly problems: ReadonlyArray<string>
}

type Version = "older" | "newer"

/** The methods that each version serves, by actor. Tasks for all of them are submitted all the time. */
const SERVED: Readonly<Record<Version, Readonly<Record<string, ReadonlyArray<string>>>>> = {
  older: { shop: ["total"], mail: ["send"], legacy: ["run"] },
  newer: { shop: ["total", "refund"], post: ["send"], stock: ["run"] },
}

const WORKERS = 4

/** Shorter than some tasks wait for a worker that serves them: a task must not fail while some worker of its queue serves it. */
const GRACE = "2 seconds"

/** One task of this many keeps its worker busy for longer than the grace; the others take a moment. */
const SLOW_OF = 40
const SLOW_MS = 2_500

export const runRollout = async (options: RolloutOptions): Promise<RolloutReport> => {
  const ran = new Map<string, number>()
  const submitted: Array<string> = []
  const crew: Array<{ readonly version: Version; readonly service: Service }> = []
  const hire = async (version: Version): Promise<void> => {
    const service = await serve({
      transport: options.url,
      actors: actorsOf(version, (id) => ran.set(id, (ran.get(id) ?? 0) + 1)),
      concurrency: 2,
      prefetch: 1,
      unknownGrace: GRACE,
      signals: false,
      logLevel: "error",
    })
    await service.ready()
    crew.push({ version, service })
  }
  let replaced = 0
  const client = await connectWhenUp(options.url)
  try {
    for (let at = 0; at < WORKERS; at++) await hire(at === 0 ? "newer" : "older")
    const end = performance.now() + options.seconds * 1_000
    const goesOn = () =>
      performance.now() < end || submitted.length < options.leastTasks || replaced < options.leastReplaced
    const replacing = async (): Promise<void> => {
      for (let to: Version = "newer"; goesOn(); ) {
        await pause(options.replaceEveryMs)
        const from = crew.filter(({ version }) => version !== to)
        const [oldest] = from
        if (oldest === undefined || from.length === 1) {
          to = to === "newer" ? "older" : "newer"
          continue
        }
        await hire(to)
        crew.splice(crew.indexOf(oldest), 1)
        await oldest.service.stop()
        replaced++
      }
    }
    const submitting = async (): Promise<void> => {
      const names = [...new Set([...namesOf("older"), ...namesOf("newer")])]
      for (let at = 0; goesOn(); at++) {
        const input = { ms: at % SLOW_OF === 0 ? SLOW_MS : 5 + Math.random() * 30 }
        submitted.push((await client.submit(names[at % names.length] ?? "", { input, queue: "default" })).id)
        await pause(1_000 / options.tasksPerSecond)
      }
    }
    await Promise.all([replacing(), submitting()])
    await atRest(client, options.restMs)
    return { submitted: submitted.length, replaced, problems: await problemsOf(client, submitted, ran) }
  } finally {
    await Promise.all(crew.map(({ service }) => service.stop({ now: true })))
    await client.close()
  }
}

const namesOf = (version: Version): ReadonlyArray<string> =>
  Object.entries(SERVED[version]).flatMap(([name, methods]) => methods.map((method) => `${name}.${method}`))

const actorsOf = (version: Version, note: (id: string) => void): ReadonlyArray<ActorDefinition> =>
  Object.entries(SERVED[version]).map(([name, methods]) =>
    actor(name, {
      methods: Object.fromEntries(
        methods.map((method) => [
          method,
          async ({ ms }: { ms: number }, job: { readonly id: string }) => {
            note(job.id)
            await pause(ms)
          },
        ]),
      ),
    }),
  )

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** Waits until no job waits or runs, at most until the deadline. The report names jobs that have not ended by then. */
const atRest = (client: Client, deadline: number): Promise<unknown> =>
  eventually(
    async () => (await client.queues()).every(({ depth, scheduled, inFlight }) => depth + scheduled + inFlight === 0),
    { deadline, every: 200, message: "the queue is empty" },
  ).catch(() => undefined)

const problemsOf = async (
  client: Client,
  submitted: ReadonlyArray<string>,
  ran: ReadonlyMap<string, number>,
): Promise<ReadonlyArray<string>> => {
  const problems: Array<string> = []
  for (const id of submitted) {
    const view = await client
      .job(id)
      .find()
      .catch((error: unknown) => (error instanceof CallboardError ? error : Promise.reject(error)))
    if (view instanceof CallboardError) {
      problems.push(`${id}: ${view.message}`)
      continue
    }
    const { name, state, error, transitions } = view
    const states = transitions.map((transition) => transition.state).join(", ")
    const runs = ran.get(id) ?? 0
    if (state !== "succeeded" || runs !== 1 || states !== "queued, started, succeeded") {
      problems.push(`${name} ${id}: ran ${runs} times; ${states}${error === undefined ? "" : `: ${error.message}`}`)
    }
  }
  return problems
}
