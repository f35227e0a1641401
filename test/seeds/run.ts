/** Runs one seed: real workers and a real client over a board in memory, in virtual time. */
import { Effect } from "effect"
import { MemoryBoard, MemoryDriver } from "../../plugins/memory/driver.ts"
import { actor, describeActor } from "../../runtime/actor/actor.ts"
import { Client } from "../../runtime/client/client.ts"
import { connectionOf } from "../../runtime/connection/connection.ts"
import { generateId } from "../../runtime/id.ts"
import { logOver } from "../../runtime/log/log.ts"
import { isTerminal } from "../../runtime/protocol/state.ts"
import { settingsOf } from "../../runtime/service/settings.ts"
import type { ConnectOptions, Driver } from "../../runtime/transport/driver.ts"
import { decodeStored } from "../../runtime/transport/job-store/codec.ts"
import { withJobs } from "../../runtime/transport/job-store/with-jobs.ts"
import type { Worker } from "../../runtime/worker/control/worker.ts"
import { startWorker } from "../../runtime/worker/worker.ts"
import { check } from "../chaos/checker.ts"
import { type Execution, type History, recordsOf } from "../chaos/history.ts"
import { LeastBoard } from "../kit/driver/least-driver.ts"
import { wholeDriver } from "../kit/driver/whole-driver.ts"
import { planOf, type SeedPlan } from "./plan.ts"
import { type PlantName, plants } from "./plants.ts"
import { overWire, Wire } from "./wire.ts"
import { Process, World } from "./world.ts"

export interface SeedResult {
  readonly seed: number
  /** The broken promises, a line each. */
  readonly problems: ReadonlyArray<string>
  readonly trace: ReadonlyArray<string>
  /** Milliseconds of virtual time. */
  readonly lasted: number
}

/** The seed that runs now: handlers note there what they do. */
let stage: Stage | undefined

const theStage = (): Stage => {
  if (stage === undefined) throw new Error("no seed runs now")
  return stage
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

interface Input {
  readonly ms?: number
  readonly failures?: number
}

const sim = actor("sim", {
  methods: {
    /** Fails in its first `failures` attempts. */
    step: {
      retry: { max: 5, backoff: { base: 0.02, max: 0.1 } },
      run: async ({ ms = 1, failures = 0 }: Input, job) => {
        theStage().runs("step", job.id, job.retries)
        job.progress(0.5)
        await sleep(ms)
        if (job.retries < failures) throw new Error(`attempt ${job.retries + 1} of ${failures + 1} fails`)
        return job.retries
      },
    },
    effect: ({ ms = 1 }: Input, job) =>
      Effect.gen(function* () {
        theStage().runs("effect", job.id, job.retries)
        yield* Effect.sleep(ms)
        return ms
      }),
    /** Fails in every attempt. */
    fail: async ({ ms = 1 }: Input, job) => {
      theStage().runs("fail", job.id, job.retries)
      await sleep(ms)
      throw new Error("always")
    },
    /** A callback, or an errback. */
    heard: (_input: unknown, job) => {
      theStage().runs("heard", job.id, job.retries)
    },
    limited: {
      limit: { concurrency: 1 },
      run: async ({ ms = 1 }: Input, job) => {
        theStage().runs("limited", job.id, job.retries)
        using _running = theStage().limited()
        await sleep(ms)
      },
    },
    /** A job that is acked early, and so runs at most once. */
    once: {
      acks: { when: "early" },
      run: async ({ ms = 1 }: Input, job) => {
        theStage().runs("once", job.id, job.retries)
        await sleep(ms)
      },
    },
  },
})

const actors = [sim]
const descriptions = actors.map(describeActor)
const settings = settingsOf({ actors, lostCap: 1_000, reconnect: { maxTries: 0 }, grace: 2 })

/** Virtual time after which a job that has not ended counts as stuck, in milliseconds. */
const MAX_MS = 120_000

/** Virtual time within which the workers have no delivery left once all jobs have ended, in milliseconds. */
const IDLE_WITHIN_MS = 30_000

class Stage {
  readonly world: World
  readonly plan: SeedPlan
  readonly executions: Array<Execution> = []
  readonly accepted = new Set<string>()
  readonly outcomes: Array<History["outcomes"][number]> = []
  readonly #plant: PlantName | undefined
  readonly #budget: { left: number; struck: number }
  readonly #connect: (process: Process) => Driver
  /** Ids of the jobs whose records say that they have ended. */
  readonly #ended = new Set<string>()
  readonly #workers = new Map<Process, Worker>()
  /** Handlers of the limited method that ran beside another one, although there had been no fault. */
  readonly overLimit: Array<string> = []
  #limited = 0
  #begun = 0
  #clients = 0
  #clientIsDone = false

  constructor(seed: number, world: World, plant: PlantName | undefined) {
    this.world = world
    this.#plant = plant
    let jobs = 0
    this.plan = planOf(world.random, () => {
      const id = generateId()
      world.nameJob(id, `j${++jobs}`)
      return id
    })
    this.#budget = { left: this.plan.budget, struck: 0 }
    const { leaseMs, isStepwise, faults, focus, budget } = this.plan
    const kinds = Object.entries(faults).flatMap(([kind, likely]) => (likely > 0 ? [`${kind} ${likely}`] : []))
    world.note(`seed ${seed}: ${isStepwise ? "stepwise" : "atomic"}, lease ${leaseMs}, ${this.plan.workers} workers`)
    world.note(`at most ${budget} faults of ${focus ?? "all calls"}: ${kinds.join(", ")}`)
    this.#connect = this.#board()
  }

  /** Connects processes to one board. */
  #board(): (process: Process) => Driver {
    const { world } = this
    const { leaseMs, isStepwise } = this.plan
    const options: ConnectOptions = { namespace: "seeds", lease: leaseMs, name: "sim", timeout: 5_000 }
    const memory = new MemoryBoard()
    const min = new LeastBoard()
    const open = (wire?: Wire): Driver => {
      if (!isStepwise) return new MemoryDriver(memory, options)
      return wholeDriver(min, options, {
        step: async (name, commit) => {
          if (wire !== undefined) await wire.step(`after ${name} of ${world.nameOf(commit.id)}`)
        },
      })
    }
    const quiet = open()
    void quiet.listen(
      { kind: "jobs" },
      (news) => news.kind === "job" && this.#stored(news.record),
      new AbortController().signal,
    )
    return (process) => {
      if (process.name === "quiet") return quiet
      const wire: Wire = new Wire({
        world,
        process,
        faults: this.plan.faults,
        focus: this.plan.focus,
        leaseMs,
        budget: this.#budget,
        onKilled: () => this.#killed(process),
      })
      const driver = open(wire)
      // Messages of a killed process that are on their way may still arrive before the broker notices its end.
      process.onKill = () => world.after(world.random.next() * 10, () => void driver.close(), null)
      const wired = overWire(driver, wire, world)
      return this.#plant === undefined ? wired : { ...wired, ...plants[this.#plant](wired) }
    }
  }

  #stored(bytes: Uint8Array | undefined): void {
    if (bytes === undefined) return
    const { id, run, state, fence, successor } = decodeStored(bytes)
    if (!isTerminal(state)) {
      this.#ended.delete(id)
      return
    }
    this.#ended.add(id)
    if (successor === undefined) this.outcomes.push({ id, run, state, fence })
  }

  runs(task: string, id: string, retries: number): void {
    const { owner } = this.world
    const name = owner instanceof Process ? owner.name : "?"
    this.executions.push({ id, task, retries, pid: Number(/\d+/.exec(name)?.[0] ?? 0) })
    this.world.note(`${name} runs ${task} of ${this.world.nameOf(id)}, retry ${retries}`)
  }

  /** Counts a running handler of the limited method. After a fault two may run, since a handler whose job was taken over goes on. */
  limited(): Disposable {
    if (++this.#limited > 1 && this.#budget.struck === 0)
      this.overLimit.push(`${this.#limited} run at ${this.world.elapsed}`)
    return { [Symbol.dispose]: () => void this.#limited-- }
  }

  #killed(process: Process): void {
    this.#workers.delete(process)
    const { world } = this
    if (process.name.startsWith("client"))
      world.after(100 + world.random.next() * 1_000, () => this.#startClient(), null)
    else world.after(100 + world.random.next() * 1_000, () => this.#startWorker(), null)
  }

  #startWorker(): void {
    const { world } = this
    const { concurrency, prefetch, leaseMs } = this.plan
    const process = new Process(`w${++this.#begun}`)
    const log = logOver((level, message) => world.note(`${process.name} ${level}: ${message.split("\n", 1)[0]}`), {
      level: "warn",
    })
    world.in(process, () => {
      const connection = connectionOf(withJobs(this.#connect(process), { lease: leaseMs }))
      const starting = startWorker({
        ...settings,
        connection,
        client: new Client(connection, { actors: descriptions }),
        actors,
        name: process.name,
        concurrency,
        prefetch,
        leaseMs,
        log,
        observers: [],
      })
      const again = (why: unknown) => {
        world.note(`${process.name} does not go on: ${String(why)}`)
        world.kill(process)
        this.#killed(process)
      }
      starting.then((worker) => {
        if (process.isDead) return
        this.#workers.set(process, worker)
        void worker.failed.then(again)
      }, again)
    })
  }

  /** Stops a worker softly, and replaces it. */
  #stopWorker(): void {
    const { world } = this
    const [stopping] = this.#workers
    if (stopping === undefined) return
    const [process, worker] = stopping
    world.note(`${process.name} is stopped`)
    this.#workers.delete(process)
    this.#startWorker()
    world.in(process, () => {
      void worker.stop().then(() => {
        world.note(`${process.name} has stopped`)
        world.kill(process)
      })
    })
  }

  /** Submits the jobs that are not accepted yet, also those of a killed client. Jobs without an answer are submitted again. */
  async #submit(client: Client): Promise<void> {
    const { world, plan } = this
    for (const batch of plan.batches) {
      let open = batch.filter((job) => !this.accepted.has(job.plan.id))
      for (let tries = 1; open.length > 0; tries++) {
        await sleep(5 + world.random.next() * 150 * tries)
        const answers = await client.submitMany(open.map(({ submission }) => submission)).catch(() => [])
        for (const answer of answers) {
          if (answer instanceof Error) continue
          this.accepted.add(answer.id)
          world.note(`client: ${world.nameOf(answer.id)} is accepted`)
        }
        open = open.filter((job) => !this.accepted.has(job.plan.id))
      }
    }
  }

  #startClient(): void {
    const { world } = this
    const process = new Process(`client${++this.#clients}`)
    world.in(process, () => {
      const connection = connectionOf(withJobs(this.#connect(process), { lease: this.plan.leaseMs }))
      const client = new Client(connection, { actors: descriptions })
      void this.#submit(client).finally(() => {
        this.#clientIsDone = true
      })
    })
  }

  /** Turns the loop until the promise settles. */
  async #turn<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false
    const settled = () => {
      isSettled = true
    }
    promise.then(settled, settled)
    await this.world.runUntil(() => isSettled || this.world.nextAt === Number.POSITIVE_INFINITY)
    return promise
  }

  async run(): Promise<History> {
    const { world, plan } = this
    for (let n = 0; n < plan.workers; n++) {
      world.after(world.random.next() * 500, () => this.#startWorker(), null)
    }
    world.after(world.random.next() * 200, () => this.#startClient(), null)
    if (plan.stopAt !== undefined) world.after(plan.stopAt, () => this.#stopWorker(), null)
    const quiet = new Process("quiet")
    const client = world.in(
      quiet,
      () => new Client(connectionOf(withJobs(this.#connect(quiet), { lease: plan.leaseMs }))),
    )
    const plans = plan.batches.flat().map((job) => job.plan)
    const isOver = () => world.elapsed >= MAX_MS
    const areEnded = () => this.#clientIsDone && [...this.accepted].every((id) => this.#ended.has(id))
    let rests = false
    while (!rests && !isOver()) {
      const from = world.elapsed + 250
      await world.runUntil(() => isOver() || (world.elapsed >= from && areEnded()))
      // The loop also waits for follow-ups, and for tasks that come again although their job has ended.
      rests = await this.#turn(this.#rests(client))
    }
    // Frozen processes now go on, and leases lapse. Neither may change an outcome.
    const held = [...this.#workers.keys()].map(({ heldUntil }) => heldUntil)
    const late = this.#budget.struck === 0 ? 100 : plan.leaseMs + 300
    const until = Math.max(world.elapsed, ...held) + late
    await world.runUntil(() => world.elapsed >= until)
    const isIdle = ({ load }: Worker) => load.inFlight === 0 && load.running === 0
    await world.runUntil(() => world.elapsed >= until + IDLE_WITHIN_MS || [...this.#workers.values()].every(isIdle))
    const leaked = [...this.#workers].flatMap(([{ name }, worker]) =>
      isIdle(worker) ? [] : [`${name} has ${worker.load.inFlight} deliveries, ${worker.load.running} run`],
    )
    return {
      plans,
      accepted: this.accepted,
      executions: this.executions,
      outcomes: this.outcomes,
      leaked,
      ended: [],
      kills: this.#budget.struck + (plan.stopAt === undefined ? 0 : 1),
      outages: 0,
      workers: plan.workers,
      // The outcome of a handler that has ended may not be stored yet, so it counts as in flight.
      inFlight: plan.concurrency * (plan.prefetch + 1),
      ...(await this.#turn(recordsOf(client, plans))),
    }
  }

  async #rests(client: Client): Promise<boolean> {
    const queues = await client.queues()
    if (queues.some(({ depth, scheduled, inFlight }) => depth + scheduled + inFlight > 0)) return false
    const { jobs } = await client.jobs({ limit: 1_000 })
    return jobs.every(({ state, id }) => isTerminal(state) || !this.#isExpected(id, jobs))
  }

  /** A job that was not accepted need not end: its submitter may have died on the way. */
  #isExpected(id: string, jobs: ReadonlyArray<{ readonly id: string; readonly rootId?: string | undefined }>): boolean {
    const root = jobs.find((job) => job.id === id)?.rootId ?? id
    return this.accepted.has(root)
  }
}

/** Runs a seed, over drivers with a planted bug if one is named. The same seed always gives the same result. */
export const runSeed = async (seed: number, plant?: PlantName): Promise<SeedResult> => {
  const world = new World(seed)
  const restore = world.install()
  try {
    const run = new Stage(seed, world, plant)
    stage = run
    const { problems } = check(await run.run())
    const found = Object.entries(problems).flatMap(([problem, list]) =>
      // A seed may consist of jobs that are to fail.
      problem === "vacuous" ? [] : list.map((what) => `${problem}: ${world.named(what)}`),
    )
    found.push(...run.overLimit.map((what) => `limit: ${what}`))
    return { seed, problems: found, trace: world.trace, lasted: world.elapsed }
  } finally {
    stage = undefined
    restore()
  }
}
