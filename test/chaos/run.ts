/** One chaos run: workers are killed and frozen at random while they run jobs with retries, errbacks and chains. */
import { existsSync, readFileSync } from "node:fs"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import type { Client } from "callboard"
import { Schema } from "effect"
import type { Reply } from "../../runtime/cluster/remote-command.ts"
import { generateId } from "../../runtime/id.ts"
import { isTerminal, STATES } from "../../runtime/protocol/state.ts"
import { bundled } from "../support/servers/bundle.ts"
import { eventually, type Spawned, spawnScript } from "../support/servers/process.ts"
import { type Proxy, startProxy } from "../unit/plugins/nats/proxy.ts"
import { connectWhenUp } from "./connecting.ts"
import type { Fault } from "./faulty.ts"
import { type Execution, found, foundAll, type History, type Plan, recordsOf } from "./history.ts"

export interface ChaosOptions {
  /** URL of the transport, with a short lease. */
  readonly url: string
  /** Folder for the ledgers of the workers. */
  readonly folder: string
  readonly jobs: number
  /** Number of strikes: a worker is killed by SIGKILL, or stopped by SIGSTOP until its leases are over, at any time. */
  readonly kills: number
  /** Restarts the broker; absent where there is none. It is called `brokerRestarts` times, spread over the run. */
  readonly restartBroker?: () => Promise<void>
  readonly brokerRestarts?: number
  /** How often the connections of all workers to the broker are cut for less than a lease. Needs a URL with a port. */
  readonly cuts?: number
  /**
   * Number of outages, spread over the run: the broker is away for longer than a lease, or, where there is none, all workers are
   * frozen at once, as on a machine that was suspended. With outages some jobs take longer than a lease.
   */
  readonly outages?: number
  /** Shortest and longest outage, in milliseconds. Defaults to 1.2 and 3.2 leases. */
  readonly outageMs?: readonly [number, number]
  /** Takes the broker away for `ms` milliseconds; absent where there is none. */
  readonly outage?: (ms: number) => Promise<void>
  /** Number of jobs that kill each worker that runs them, while other jobs run beside them. Each fails after `lostCap` deaths. */
  readonly poison?: number
  /**
   * Number of jobs whose handlers never end: every other one blocks its thread, the others ignore their signal. Those that block
   * run among all jobs; the others run in a worker with one slot and a queue of its own, with jobs that wait behind them.
   */
  readonly stuck?: number
  readonly leaseMs: number
  readonly workers?: number
  readonly concurrency?: number
  /** Variables of the environment of each worker. */
  readonly env?: Readonly<Record<string, string>>
  /** A command that runs each worker, and ends with it. */
  readonly prefix?: ReadonlyArray<string>
  /** Whether the workers reach the broker through a proxy, which `cuts` and a trial can cut. Defaults to whether there are cuts. */
  readonly wired?: boolean
  /** What happens before the first strike. */
  readonly trial?: (scene: Scene) => Promise<void>
  /** How long all jobs may take to end after the last kill, in milliseconds. Defaults to 60,000. */
  readonly restMs?: number
  readonly fault?: Fault
  readonly say?: (line: string) => void
}

/** What a trial acts on. */
export interface Scene {
  readonly client: Client
  readonly crew: Crew
  /** The connections of the workers, where they are wired. */
  readonly wire: Wire | undefined
  /** Submits jobs, which are checked in the end. */
  submit(plans: ReadonlyArray<Plan>): Promise<void>
  /** Resolves as soon as each job runs, whether or not its record says so. Rejects at the deadline, in milliseconds. */
  running(plans: ReadonlyArray<Plan>, deadline?: number): Promise<void>
  /** Submits jobs, and resolves when each runs and its record says so. */
  begin(plans: ReadonlyArray<Plan>): Promise<void>
  /** Notes that the workers may have lost what they held, as after an outage. */
  noteOutage(): void
}

/** Longest time between the submission of a part of the jobs and its strike, in milliseconds. The time is random. */
const STRIKE_WITHIN_MS = 150

/** Number of strikes from one rolling restart to the next. */
const REPLACE_EVERY = 5

/** Deliveries that a worker holds for each of its slots: the worker's default. */
const PREFETCH = 4

/** The program of a worker. The first call bundles it, and blocks the thread for that long. */
export const workerProgram = (): string => bundled(fileURLToPath(new URL("worker.ts", import.meta.url)))

/** Longest line of jobs each of which waits for the one before. */
const MAX_LINE = 20

/** With outages, one plain job of this many takes up to two leases, so that an outage begins and ends while it runs. */
const LONG_EVERY = 20

/** Number of long jobs that are submitted with each poison job. */
const BESIDE = 6

/** Poison jobs, each followed by long jobs that run beside it and must succeed. */
const poisonPlans = (poison: number): ReadonlyArray<Plan> =>
  Array.from({ length: poison }, () => ["poison" as const, ...Array.from({ length: BESIDE }, () => "long" as const)])
    .flat()
    .map((kind) => ({ id: generateId(), kind, failures: 0, followUps: 0 }))

/** Number of jobs that wait behind each job whose handler ignores its signal. */
const BEHIND = 3

const TRAPS = "traps"

const stuckPlans = (stuck: number): ReadonlyArray<ReadonlyArray<Plan>> =>
  Array.from({ length: stuck }, (_, at): ReadonlyArray<Plan> => {
    const plan = { failures: 0, followUps: 0 }
    if (at % 2 === 0) return [{ ...plan, id: generateId(), kind: "block" }]
    const kinds = ["deaf" as const, ...Array.from({ length: BEHIND }, () => "plain" as const)]
    return kinds.map((kind) => ({ ...plan, id: generateId(), kind, queue: TRAPS }))
  })

/** Inserts groups of plans into a list of plans at even distances. */
const spread = (plans: ReadonlyArray<Plan>, groups: ReadonlyArray<ReadonlyArray<Plan>>): ReadonlyArray<Plan> => {
  const part = Math.ceil(plans.length / (groups.length + 1))
  return [...groups, []].flatMap((group, at) => [...plans.slice(at * part, (at + 1) * part), ...group])
}

/** Deaths of its workers after which a job is given up: more than strikes and poison jobs together can cause for another job. */
const lostCapOf = ({ kills, poison = 0 }: ChaosOptions): number => (poison === 0 ? 1_000 : kills + poison + 2)

/** Of this many jobs one sleeps, waits for a signal and calls another job. */
const WAITS_EVERY = 50

/** The plans of jobs of five kinds, in turn, and some that wait. */
const plansFor = ({ jobs, leaseMs, outages = 0 }: ChaosOptions): ReadonlyArray<Plan> => {
  const ids = Array.from({ length: jobs }, () => generateId())
  return ids.map((id, at): Plan => {
    switch (at % 5) {
      case 0:
        if (at % WAITS_EVERY === WAITS_EVERY / 2 - 5) return { id, kind: "waits", failures: 0, followUps: 1 }
        return {
          id,
          kind: "plain",
          failures: 0,
          followUps: 0,
          ...(outages > 0 && at % (5 * LONG_EVERY) === 0 ? { workMs: (0.5 + Math.random() * 1.5) * leaseMs } : {}),
        }
      case 1:
        return { id, kind: "retry", failures: 1 + (at % 3), followUps: 0 }
      case 2:
        return { id, kind: "errback", failures: 1, followUps: 1 }
      case 3:
        return { id, kind: "chain", failures: 0, followUps: 2 }
      default:
        // The job waits for a chain, for a job that fails, and for the job of its own kind before it. Every `MAX_LINE` jobs a
        // new line begins, so that each line ends in time.
        return {
          id,
          kind: "after",
          failures: 0,
          followUps: 0,
          after: (at % (5 * MAX_LINE) < 5 ? [1, 2] : [1, 2, 5]).flatMap((back) => ids[at - back] ?? []),
        }
    }
  })
}

const taskOf = (plan: Plan) => {
  const { id, kind, failures, workMs, queue = "default", after = [], steps, delay, expires } = plan
  switch (kind) {
    case "steps":
      return { task: "chaos.steps", id, queue, input: { steps, workMs } }
    case "waits":
      return { task: "chaos.waits", id }
    case "errback":
      return { task: "chaos.fail", id, errbacks: [{ task: "chaos.heard" }] }
    case "chain":
      return { task: "chaos.step", id, chain: [{ task: "chaos.step" }, { task: "chaos.step" }] }
    case "after":
      return { task: "chaos.step", id, after: { ids: after, allowFailure: true } }
    case "poison":
    case "long":
    case "block":
    case "deaf":
      return { task: `chaos.${kind}`, id, queue }
    default:
      return {
        task: "chaos.step",
        id,
        queue,
        input: { failures, ...(workMs === undefined ? {} : { workMs }) },
        ...(delay === undefined ? {} : { delay }),
        ...(expires === undefined ? {} : { expires }),
      }
  }
}

/** Longest start of a worker, in milliseconds. It may start in an outage, of 40 seconds on a cluster, with an election after it. */
const READY_MS = 90_000

/** Characters of a worker's output that tell why it ended. */
const LAST_WORDS = 400

/** The workers of a run. */
export class Crew {
  readonly #options: ChaosOptions
  /** URL of the transport for the workers. */
  readonly #url: string
  readonly #ledgers: Array<string> = []
  readonly workers: Array<Spawned> = []
  /** The workers that serve the queue of handlers that ignore their signal. */
  readonly #trapped = new Set<Spawned>()
  /** The last words of workers that ended by themselves. */
  readonly ended: Array<string> = []
  #dismissed = false

  constructor(options: ChaosOptions, url: string) {
    this.#options = options
    this.#url = url
  }

  async hire(queue = "default"): Promise<Spawned> {
    const { folder, fault, prefix, env } = this.#options
    const concurrency = queue === TRAPS ? 1 : (this.#options.concurrency ?? 8)
    const ledger = `${folder}/ledger-${this.#ledgers.length}`
    this.#ledgers.push(ledger)
    const args = [this.#url, ledger, `${concurrency}`, `${lostCapOf(this.#options)}`, queue]
    const worker = spawnScript(workerProgram(), [...args, ...(fault === undefined ? [] : [fault])], {
      ...(prefix === undefined ? {} : { prefix }),
      ...(env === undefined ? {} : { env }),
    })
    this.workers.push(worker)
    if (queue === TRAPS) this.#trapped.add(worker)
    void worker.exited.then(() => this.#ended(worker))
    await Promise.race([worker.waitForLine(/^ready/, READY_MS), worker.exited])
    return worker
  }

  /** Starts a worker for the queue of another one that is gone. */
  #hireInsteadOf(worker: Spawned): Promise<Spawned> {
    return this.hire(this.#trapped.has(worker) ? TRAPS : undefined)
  }

  /** Replaces a worker that has ended by itself: a poison job has killed it, or its slots were stuck. */
  #ended(worker: Spawned): void {
    const at = this.workers.indexOf(worker)
    if (this.#dismissed || at < 0) return
    const { poison = 0, stuck = 0 } = this.#options
    if (poison + stuck === 0) this.ended.push(worker.output.trim().slice(-LAST_WORDS))
    this.workers.splice(at, 1)
    void this.#hireInsteadOf(worker)
  }

  /** Kills a worker and starts another one; at two strikes of five it freezes a worker until its leases are over instead. */
  async strike(number: number): Promise<void> {
    const at = Math.floor(Math.random() * this.workers.length)
    const worker = this.workers[at]
    if (worker === undefined) return
    if (number % 5 !== 2 && number % 5 !== 4) {
      this.workers.splice(at, 1)
      worker.killGroup("SIGKILL")
      await worker.exited
      await this.#hireInsteadOf(worker)
    } else {
      worker.killGroup("SIGSTOP")
      await sleep(this.#options.leaseMs * 1.5)
      worker.killGroup("SIGCONT")
    }
  }

  /** Freezes the workers that there are, all at once. The function that it returns lets them go on. */
  freeze(): () => void {
    const frozen = [...this.workers]
    for (const worker of frozen) worker.killGroup("SIGSTOP")
    return () => {
      for (const worker of frozen) worker.killGroup("SIGCONT")
    }
  }

  /** Freezes all workers at once, for this many milliseconds. */
  async freezeFor(ms: number): Promise<void> {
    const thaw = this.freeze()
    await sleep(ms)
    thaw()
  }

  /** A rolling restart: the oldest worker stops softly, and a new one replaces it. It does not count as a kill. */
  async replace(): Promise<void> {
    const worker = this.workers.shift()
    if (worker === undefined) return
    worker.killGroup("SIGTERM")
    await worker.exited
    await this.#hireInsteadOf(worker)
  }

  get executions(): ReadonlyArray<Execution> {
    return this.#ledgers
      .flatMap((ledger) => (existsSync(ledger) ? readFileSync(ledger, "utf8").split("\n") : []))
      .flatMap((line) => {
        // The last line of a killed worker may be incomplete.
        try {
          return line === "" ? [] : [JSON.parse(line) as Execution]
        } catch {
          return []
        }
      })
  }

  async dismiss(): Promise<void> {
    this.#dismissed = true
    await Promise.all(this.workers.map((worker) => worker.end()))
  }
}

/** A proxy between the workers and their broker. It can cut their connections while all processes live. */
export class Wire implements AsyncDisposable {
  readonly #proxy: Proxy
  /** URL of the transport through the proxy. */
  readonly url: string

  private constructor(proxy: Proxy, url: string) {
    this.#proxy = proxy
    this.url = url
  }

  static async to(target: string): Promise<Wire> {
    const url = new URL(target)
    const port = Number(url.port)
    const proxy = await startProxy(() => port)
    url.port = `${proxy.port}`
    return new Wire(proxy, url.href)
  }

  async cut(ms: number): Promise<void> {
    await this.#proxy.cut()
    await sleep(ms)
    await this.#proxy.heal()
  }

  /** Loses every packet: the connections stay open. */
  async freeze(ms: number): Promise<void> {
    this.#proxy.freeze()
    await sleep(ms)
    this.#proxy.thaw()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#proxy.stop()
  }
}

/** Whether a fault that is to happen `times` times, spread over all strikes, happens at this strike. */
const isTurn = (strike: number, strikes: number, times: number): boolean =>
  times > 0 && strike % Math.max(1, Math.floor(strikes / times)) === 0

export const runChaos = async (options: ChaosOptions): Promise<History> => {
  const { kills, cuts = 0, outages = 0, poison = 0, stuck = 0, workers = 4, leaseMs, say = () => undefined } = options
  const [shortest, longest] = options.outageMs ?? [1.2 * leaseMs, 3.2 * leaseMs]
  await using wire = (options.wired ?? cuts > 0) ? await Wire.to(options.url) : undefined
  await using client = await connectWhenUp(options.url)
  const watching = new AbortController()
  const outcomes: Array<History["outcomes"][number]> = []
  await client.connection.jobs.watch(
    {},
    ({ id, run, state, fence, successor }) => {
      if (["succeeded", "failed"].includes(state) && successor === undefined) outcomes.push({ id, run, state, fence })
    },
    watching.signal,
  )
  const crew = new Crew(options, wire?.url ?? options.url)
  const strikes = [...poisonPlans(poison), ...spread(plansFor(options), stuckPlans(stuck))]
  const plans: Array<Plan> = []
  const accepted = new Set<string>()
  let away = 0
  const signalled: Array<Promise<void>> = []
  const submit = async (batch: ReadonlyArray<Plan>): Promise<void> => {
    plans.push(...batch)
    for (const id of await submitted(client, batch)) accepted.add(id)
    for (const { id, kind } of batch) if (kind === "waits" && accepted.has(id)) signalled.push(signal(client, id))
  }
  const running = async (batch: ReadonlyArray<Plan>, deadline = 60_000): Promise<void> => {
    const haveBegun = () => {
      const ran = new Set(crew.executions.map(({ id }) => id))
      return batch.every(({ id }) => ran.has(id))
    }
    await eventually(haveBegun, { deadline, every: 3, message: "the jobs run" })
  }
  const begin = async (batch: ReadonlyArray<Plan>): Promise<void> => {
    await submit(batch)
    await running(batch)
    await eventually(
      async () => {
        const views = await Promise.all(batch.map(({ id }) => found(client, id)))
        return views.every((view) => view?.times.started !== undefined)
      },
      { every: 50, message: "the jobs begin" },
    )
  }
  try {
    await Promise.all(Array.from({ length: workers }, () => crew.hire()))
    if (stuck > 1) await crew.hire(TRAPS)
    // A part of the jobs is submitted before each strike, so that every strike hits running jobs.
    await options.trial?.({ client, crew, wire, submit, running, begin, noteOutage: () => away++ })
    const part = Math.ceil(strikes.length / Math.max(1, kills))
    const { restartBroker, brokerRestarts = 0 } = options
    for (let from = 0, struck = 0; from < strikes.length; from += part) {
      await submit(strikes.slice(from, from + part))
      if (struck++ >= kills) continue
      if (restartBroker !== undefined && isTurn(struck, kills, brokerRestarts)) {
        await restartBroker()
        say(`the broker was restarted before strike ${struck}`)
      }
      if (wire !== undefined && isTurn(struck, kills, cuts)) {
        await wire.cut((0.1 + Math.random() * 0.5) * leaseMs)
        say(`the wire was cut before strike ${struck}`)
      }
      await sleep(Math.random() * STRIKE_WITHIN_MS)
      if (isTurn(struck, kills, outages)) {
        const ms = shortest + Math.random() * (longest - shortest)
        // A worker is struck during the outage.
        await Promise.all([options.outage === undefined ? crew.freezeFor(ms) : options.outage(ms), crew.strike(struck)])
        away++
        say(`nothing worked for ${Math.round(ms)} ms at strike ${struck}`)
      } else await crew.strike(struck)
      if (struck % REPLACE_EVERY === 0) await crew.replace()
      say(`strike ${struck} of ${kills}`)
    }
    await Promise.all(signalled)
    await restOf(client, plans, options.restMs ?? 60_000)
    const leaked = await leakedBy(client)
    return {
      leaked,
      ended: crew.ended,
      plans,
      accepted,
      executions: crew.executions,
      outcomes,
      kills: kills + poison * lostCapOf(options) + stuck,
      outages: away,
      workers,
      inFlight: (options.concurrency ?? 8) * PREFETCH,
      ...(await recordsOf(client, plans)),
    }
  } finally {
    watching.abort()
    await crew.dismiss()
  }
}

/** Longest time between the submission of a job that waits and its signal, in milliseconds. The time is random. */
const SIGNAL_WITHIN_MS = 4_000

/** Signals a job once, however often the answer is lost. */
const signal = async (client: Client, id: string): Promise<void> => {
  await sleep(Math.random() * SIGNAL_WITHIN_MS)
  const send = () => client.job(id).signal("go", id, { key: "go" })
  await eventually(() => send().then(() => true), { deadline: 600_000, every: 200, message: `${id} is signalled` })
}

/** Submits a batch and returns the confirmed ids. Tasks without an answer are submitted again under their id. */
const submitted = async (client: Client, batch: ReadonlyArray<Plan>): Promise<ReadonlyArray<string>> => {
  const ids: Array<string> = []
  let open = batch
  for (let tried = 0; tried < SUBMIT_TRIES && open.length > 0; tried++) {
    if (tried > 0) await sleep(SUBMIT_PAUSE_MS)
    const answers = await client.submitMany(open.map(taskOf)).catch(() => [])
    ids.push(...answers.flatMap((answer) => (answer instanceof Error ? [] : [answer.id])))
    open = open.filter(({ id }) => !ids.includes(id))
  }
  return ids
}

/** Most tries of a submission, and the pause between them in milliseconds: a broker that was restarted is back by then. */
const SUBMIT_TRIES = 60
const SUBMIT_PAUSE_MS = 500

/** The workers that still hold a delivery, or have fewer free slots than at first, although no job is left: a sentence for each. */
const leakedBy = async (client: Client): Promise<ReadonlyArray<string>> => {
  let found: ReadonlyArray<string> = NO_ANSWER
  await eventually(
    async () => {
      const answers = await client.control("stats", {}, { timeout: 5 }).catch(() => [])
      found = answers.length === 0 ? NO_ANSWER : answers.flatMap(leakOf)
      return found.length === 0
    },
    // A worker that was killed last counts as alive until its heartbeat lapses.
    { deadline: 20_000, every: 500, message: "no worker holds a delivery" },
  ).catch(() => undefined)
  return found
}

const NO_ANSWER = ["no worker answered"]

const Stats = Schema.Struct({ inFlight: Schema.Int, capacity: Schema.Int, room: Schema.Int })
const isStats = Schema.is(Stats)

const leakOf = ({ worker, value, error }: Reply): ReadonlyArray<string> => {
  if (error !== undefined || !isStats(value)) return [`${worker}: ${error ?? "told nothing of its slots"}`]
  const { inFlight, capacity, room } = value
  return inFlight === 0 && room === capacity
    ? []
    : [`${worker} holds ${inFlight} and has room for ${room} of ${capacity}`]
}

/** Waits until every job has ended and the queues are empty, at most until the deadline. The checker reports jobs that are stuck. */
const restOf = async (client: Client, plans: ReadonlyArray<Plan>, deadline: number): Promise<void> => {
  const open = new Set(plans.map((plan) => plan.id))
  await eventually(
    async () => {
      for await (const [id, view] of foundAll(client, [...open])) {
        if (view === undefined || !isTerminal(view.state)) return false
        open.delete(id)
      }
      // What follows them. A broker without depths tells nothing of its queues.
      if ((await client.jobs({ states: UNENDED, limit: 1 })).jobs.length > 0) return false
      return (await client.queues()).every((queue) => queue.depth + queue.scheduled === 0)
    },
    { deadline, every: 200, message: "the board comes to rest" },
  ).catch(() => undefined)
}

const UNENDED = STATES.filter((state) => !isTerminal(state))
