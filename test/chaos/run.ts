/** One chaos run: workers that are killed and frozen at random while jobs with retries, errbacks and chains flow. */
import { existsSync, readFileSync } from "node:fs"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { type Client, connect } from "callboard"
import { Schema } from "effect"
import type { Reply } from "../../runtime/cluster/remote-command.ts"
import { generateId } from "../../runtime/id.ts"
import { bundled } from "../support/servers/bundle.ts"
import { eventually, type Spawned, spawnScript } from "../support/servers/process.ts"
import { type Proxy, startProxy } from "../unit/plugins/nats/proxy.ts"
import type { Fault } from "./faulty.ts"
import { type Execution, type History, type Plan, recordsOf } from "./history.ts"

export interface ChaosOptions {
  /** Of the transport, with a short lease. */
  readonly url: string
  /** For ledgers. */
  readonly folder: string
  readonly jobs: number
  /** SIGKILL, and SIGSTOP followed by SIGCONT after the lease is over, of any worker at any time. */
  readonly kills: number
  /** Brings the broker down and up again, where there is one; as often as `brokerRestarts` says, spread over the run. */
  readonly restartBroker?: () => Promise<void>
  readonly brokerRestarts?: number
  /** How often the wire between all workers and their broker is cut for less than a lease, spread over the run. Needs a URL with a port. */
  readonly cuts?: number
  /**
   * How often nothing works for longer than a lease, spread over the run: the broker is away, or, where there is none, all
   * workers are frozen at once, as on a machine that was suspended. Some jobs then take longer than a lease.
   */
  readonly outages?: number
  /** How long one lasts, at least and at most. Defaults to 1.2 to 3.2 leases. */
  readonly outageMs?: readonly [number, number]
  /** Takes the broker away for so many milliseconds, where there is one. */
  readonly outage?: (ms: number) => Promise<void>
  /** Number of jobs that kill each worker that runs them, with others beside them. Each has its end after `lostCap` deaths. */
  readonly poison?: number
  /**
   * Number of jobs whose handlers never end: in turn they block their thread, and ignore their signal. The former run among all
   * others, the latter in a worker with one slot and a queue of its own, with jobs that wait behind them.
   */
  readonly stuck?: number
  readonly leaseMs: number
  readonly workers?: number
  readonly concurrency?: number
  /** How long all jobs may take to end after the last kill. */
  readonly restMs?: number
  readonly fault?: Fault
  readonly say?: (line: string) => void
}

/** A strike comes at a random time within this after its part of the load. */
const STRIKE_WITHIN_MS = 150

/** Strikes from one rolling restart to the next. */
const REPLACE_EVERY = 5

/** The default of the worker. */
const PREFETCH = 4

const WORKER = fileURLToPath(new URL("worker.ts", import.meta.url))

/** Length of a chain of jobs that wait for one another. */
const LONGEST_LINE = 20

/** With outages, one plain job of so many takes up to two leases, so that an outage begins and ends while it runs. */
const LONG_EVERY = 20

/** Long jobs that are submitted with each poison. */
const BESIDE = 6

/** Poison jobs, each amid jobs that succeed. */
const poisonPlans = (poison: number): ReadonlyArray<Plan> =>
  Array.from({ length: poison }, () => ["poison" as const, ...Array.from({ length: BESIDE }, () => "long" as const)])
    .flat()
    .map((kind) => ({ id: generateId(), kind, failures: 0, followUps: 0 }))

/** Jobs that wait behind one whose handler ignores its signal. */
const BEHIND = 3

const TRAPS = "traps"

const stuckPlans = (stuck: number): ReadonlyArray<ReadonlyArray<Plan>> =>
  Array.from({ length: stuck }, (_, at): ReadonlyArray<Plan> => {
    const plan = { failures: 0, followUps: 0 }
    if (at % 2 === 0) return [{ ...plan, id: generateId(), kind: "block" }]
    const kinds = ["deaf" as const, ...Array.from({ length: BEHIND }, () => "plain" as const)]
    return kinds.map((kind) => ({ ...plan, id: generateId(), kind, queue: TRAPS }))
  })

/** Puts groups of plans between other ones, in even distances. */
const spread = (plans: ReadonlyArray<Plan>, groups: ReadonlyArray<ReadonlyArray<Plan>>): ReadonlyArray<Plan> => {
  const part = Math.ceil(plans.length / (groups.length + 1))
  return [...groups, []].flatMap((group, at) => [...plans.slice(at * part, (at + 1) * part), ...group])
}

/** Deaths of their workers after which jobs are given up: more than strikes and first runs of poison can cost a job. */
const lostCapOf = ({ kills, poison = 0 }: ChaosOptions): number => (poison === 0 ? 1_000 : kills + poison + 2)

/** Jobs of all kinds, evenly. */
const plansFor = ({ jobs, leaseMs, outages = 0 }: ChaosOptions): ReadonlyArray<Plan> => {
  const ids = Array.from({ length: jobs }, () => generateId())
  return ids.map((id, at): Plan => {
    switch (at % 5) {
      case 0:
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
        // A chain, one that fails, and the one of its own kind before it, up to a length that comes to its end in time.
        return {
          id,
          kind: "after",
          failures: 0,
          followUps: 0,
          after: (at % (5 * LONGEST_LINE) < 5 ? [1, 2] : [1, 2, 5]).flatMap((back) => ids[at - back] ?? []),
        }
    }
  })
}

const taskOf = (plan: Plan) => {
  const { id, kind, failures, workMs, queue = "default", after = [] } = plan
  switch (kind) {
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
      return { task: "chaos.step", id, queue, input: { failures, ...(workMs === undefined ? {} : { workMs }) } }
  }
}

/** A worker may be hired in the middle of an outage, which a cluster may need 40 seconds for, and its election a few more. */
const READY_MS = 90_000

class Crew {
  readonly #options: ChaosOptions
  /** Where workers find the transport. */
  readonly #url: string
  readonly #ledgers: Array<string> = []
  readonly workers: Array<Spawned> = []
  /** Workers that serve the queue of traps. */
  readonly #trapped = new Set<Spawned>()
  #dismissed = false

  constructor(options: ChaosOptions, url: string) {
    this.#options = options
    this.#url = url
  }

  async hire(queue = "default"): Promise<Spawned> {
    const { folder, fault } = this.#options
    const concurrency = queue === TRAPS ? 1 : (this.#options.concurrency ?? 8)
    const ledger = `${folder}/ledger-${this.#ledgers.length}`
    this.#ledgers.push(ledger)
    const worker = spawnScript(bundled(WORKER), [
      this.#url,
      ledger,
      `${concurrency}`,
      `${lostCapOf(this.#options)}`,
      queue,
      ...(fault === undefined ? [] : [fault]),
    ])
    this.workers.push(worker)
    if (queue === TRAPS) this.#trapped.add(worker)
    void worker.exited.then(() => this.#ended(worker))
    await Promise.race([worker.waitForLine(/^ready/, READY_MS), worker.exited])
    return worker
  }

  /** Hires a worker in the place of another one. */
  #hireInsteadOf(worker: Spawned): Promise<Spawned> {
    return this.hire(this.#trapped.has(worker) ? TRAPS : undefined)
  }

  /** Replaces a worker that has ended by itself: a poison has killed it, or it was stuck. */
  #ended(worker: Spawned): void {
    const at = this.workers.indexOf(worker)
    if (this.#dismissed || at < 0) return
    this.workers.splice(at, 1)
    void this.#hireInsteadOf(worker)
  }

  /** Kills a worker and hires another, or, at two strikes of five, freezes one until its leases are over. */
  async strike(number: number): Promise<void> {
    const at = Math.floor(Math.random() * this.workers.length)
    const worker = this.workers[at]
    if (worker === undefined) return
    if (number % 5 !== 2 && number % 5 !== 4) {
      this.workers.splice(at, 1)
      worker.kill("SIGKILL")
      await worker.exited
      await this.#hireInsteadOf(worker)
    } else {
      worker.kill("SIGSTOP")
      await sleep(this.#options.leaseMs * 1.5)
      worker.kill("SIGCONT")
    }
  }

  /** Freezes all workers at once. */
  async freeze(ms: number): Promise<void> {
    const frozen = [...this.workers]
    for (const worker of frozen) worker.kill("SIGSTOP")
    await sleep(ms)
    for (const worker of frozen) worker.kill("SIGCONT")
  }

  /** A rolling restart: the oldest worker stops in good order, and another one replaces it. It does not count as a kill. */
  async replace(): Promise<void> {
    const worker = this.workers.shift()
    if (worker === undefined) return
    worker.kill("SIGTERM")
    await worker.exited
    await this.#hireInsteadOf(worker)
  }

  get executions(): ReadonlyArray<Execution> {
    return this.#ledgers
      .flatMap((ledger) => (existsSync(ledger) ? readFileSync(ledger, "utf8").split("\n") : []))
      .flatMap((line) => {
        // The last line of a killed worker may be cut.
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

/** The wire between workers and their broker, which can be cut while both go on. */
class Wire implements AsyncDisposable {
  readonly #proxy: Proxy
  /** Of the transport, over this wire. */
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

  [Symbol.asyncDispose](): Promise<void> {
    return this.#proxy.stop()
  }
}

/** Whether something that is to happen so often in so many strikes happens at this one. */
const isTurn = (strike: number, strikes: number, times: number): boolean =>
  times > 0 && strike % Math.max(1, Math.floor(strikes / times)) === 0

export const runChaos = async (options: ChaosOptions): Promise<History> => {
  const { kills, cuts = 0, outages = 0, poison = 0, stuck = 0, workers = 4, leaseMs, say = () => undefined } = options
  const [shortest, longest] = options.outageMs ?? [1.2 * leaseMs, 3.2 * leaseMs]
  await using wire = cuts > 0 ? await Wire.to(options.url) : undefined
  await using client = await connect(options.url)
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
  const plans = [...poisonPlans(poison), ...spread(plansFor(options), stuckPlans(stuck))]
  const accepted = new Set<string>()
  let away = 0
  try {
    await Promise.all(Array.from({ length: workers }, () => crew.hire()))
    if (stuck > 1) await crew.hire(TRAPS)
    // A part of the load before each strike, so that every strike hits work in progress.
    const part = Math.ceil(plans.length / Math.max(1, kills))
    const { restartBroker, brokerRestarts = 0 } = options
    for (let from = 0, struck = 0; from < plans.length; from += part) {
      const batch = plans.slice(from, from + part)
      for (const id of await submitted(client, batch)) accepted.add(id)
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
        // The strike hits a worker meanwhile.
        await Promise.all([options.outage === undefined ? crew.freeze(ms) : options.outage(ms), crew.strike(struck)])
        away++
        say(`nothing worked for ${Math.round(ms)} ms at strike ${struck}`)
      } else await crew.strike(struck)
      if (struck % REPLACE_EVERY === 0) await crew.replace()
      say(`strike ${struck} of ${kills}`)
    }
    await restOf(client, plans, options.restMs ?? 60_000)
    const leaked = await leakedBy(client)
    return {
      leaked,
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

/** A broker that was restarted is back within these. */
const SUBMIT_TRIES = 60
const SUBMIT_PAUSE_MS = 500

/** Workers that say, with nothing left to do, that something is still in their hands, or that they have less room than at first. */
const leakedBy = async (client: Client): Promise<ReadonlyArray<string>> => {
  let found: ReadonlyArray<string> = NOBODY_ANSWERED
  await eventually(
    async () => {
      const answers = await client.control("stats", {}, { timeout: 5 }).catch(() => [])
      found = answers.length === 0 ? NOBODY_ANSWERED : answers.flatMap(leakOf)
      return found.length === 0
    },
    // The heartbeat of a worker that was killed last lapses first.
    { deadline: 20_000, every: 500, message: "all hands are empty" },
  ).catch(() => undefined)
  return found
}

const NOBODY_ANSWERED = ["no worker answered"]

const Stats = Schema.Struct({ inFlight: Schema.Int, capacity: Schema.Int, room: Schema.Int })
const isStats = Schema.is(Stats)

const leakOf = ({ worker, value, error }: Reply): ReadonlyArray<string> => {
  if (error !== undefined || !isStats(value)) return [`${worker}: ${error ?? "told nothing of its slots"}`]
  const { inFlight, capacity, room } = value
  return inFlight === 0 && room === capacity
    ? []
    : [`${worker} holds ${inFlight} and has room for ${room} of ${capacity}`]
}

/** Waits until nothing waits and every job has ended, or until the time is over: what is stuck then, the checker says. */
const restOf = async (client: Client, plans: ReadonlyArray<Plan>, deadline: number): Promise<void> => {
  const open = new Set(plans.map((plan) => plan.id))
  await eventually(
    async () => {
      for (const id of open) {
        const view = await client
          .job(id)
          .find()
          .catch(() => undefined)
        if (view === undefined || !TERMINAL.has(view.state)) return false
        open.delete(id)
      }
      return (await client.queues()).every((queue) => queue.depth + queue.scheduled === 0)
    },
    { deadline, every: 200, message: "the board comes to rest" },
  ).catch(() => undefined)
}

const TERMINAL = new Set(["succeeded", "failed", "cancelled", "expired"])
