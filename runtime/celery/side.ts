/**
 * Lets a worker run among Celery's workers: writes results for Celery's clients, executes commands of its tools and sends
 * events to its monitors. The worker itself depends on none of this: it is given the interface `ExternalTasks` and observers.
 */
import { hostname } from "node:os"
import type { ActorDefinition } from "../actor/actor.ts"
import type { Client } from "../client/client.ts"
import { openCeleryMessages } from "../connection/celery.ts"
import type { Connection } from "../connection/connection.ts"
import type { Log } from "../log/log.ts"
import { pythonException } from "../protocol/celery-result.ts"
import type { CeleryMessages, CeleryResults } from "../transport/celery.ts"
import type { Settlement } from "../transport/job-store/transport.ts"
import type { ActiveDelivery, ExternalTasks } from "../worker/active-delivery.ts"
import type { Worker } from "../worker/control/worker.ts"
import { TaskEventEmitter, WorkerEventEmitter } from "../worker/telemetry/event-emitter.ts"
import type { WorkerObserver } from "../worker/telemetry/observer.ts"
import { TaskNames } from "../worker/telemetry/observer.ts"
import { serveCeleryControl, TaskTotals } from "./control.ts"
import { CeleryEvents } from "./events.ts"
import { followClocks, mingle } from "./mingle.ts"
import { ResultReporter } from "./result-reporter.ts"
import { openResults } from "./results.ts"
import { BUILTIN_ACTOR, builtinTasks } from "./tasks.ts"

export interface CelerySideOptions {
  /** URL of the back end from which Celery's clients read results; `rpc:` when the worker sends them to the clients. */
  readonly resultBackend: string
  /** The worker's transport. Where Celery supports its broker, commands and events go over that broker too. */
  readonly transport: string | object
  readonly connection: Connection
  readonly client: Client
  readonly actors: ReadonlyArray<ActorDefinition>
  /** Other names of methods, as the setting `taskNames` has them. */
  readonly taskNames: ReadonlyMap<string, string>
  readonly namespace?: string | undefined
  /** Name of the worker. */
  readonly name: string
  readonly maxBody: number
  /** Whether task events are enabled from the start. */
  readonly events: boolean
  readonly log: Log
}

export class CelerySide {
  /** The actors of the worker, and an actor with the tasks that every worker of Celery has. */
  readonly actors: ReadonlyArray<ActorDefinition>
  readonly external: ExternalTasks
  readonly observers: ReadonlyArray<WorkerObserver>
  readonly #options: CelerySideOptions
  readonly #reporter: ResultReporter
  readonly #results: CeleryResults
  readonly #messages: CeleryMessages | undefined
  readonly #events: CeleryEvents | undefined
  readonly #workerEvents: WorkerEventEmitter | undefined
  readonly #names: TaskNames
  readonly #totals = new TaskTotals()
  readonly #end: AbortController
  #worker: Worker | undefined

  private constructor(options: CelerySideOptions, results: CeleryResults, messages: CeleryMessages | undefined) {
    const { connection, actors, taskNames, maxBody, log } = options
    this.#options = options
    this.#results = results
    this.#messages = messages
    this.#end = new AbortController()
    this.#names = new TaskNames(actors, taskNames)
    const reporter = new ResultReporter({
      results,
      messages,
      names: this.#names,
      maxBody,
      log,
      signal: this.#end.signal,
    })
    this.#reporter = reporter
    this.external = reporter
    const builtin = builtinTasks({ names: this.#names, reporter, results, connection })
    this.actors = actors.some(({ name }) => name === BUILTIN_ACTOR) ? actors : [...actors, builtin]
    const submitted: WorkerObserver = {
      settled: (_active: ActiveDelivery, settlement: Settlement) => reporter.settled(settlement),
    }
    if (messages === undefined) {
      this.observers = [submitted]
      return
    }
    const events = new CeleryEvents({ messages, node: this.node, enabled: options.events, log })
    this.#events = events
    this.#workerEvents = new WorkerEventEmitter(events, () => this.#load())
    this.observers = [
      submitted,
      this.#totals,
      new TaskEventEmitter(events, (task, meth) => this.#names.method(task, meth), pythonException),
      this.#workerEvents,
    ]
  }

  /**
   * Connects to the back end and the broker. Fails with `TransportError`: `invalid` or `unsupported` for a URL that has no
   * back end.
   */
  static async open(options: CelerySideOptions): Promise<CelerySide> {
    const { transport, resultBackend } = options
    const messages = typeof transport === "string" ? await openCeleryMessages(transport, options) : undefined
    let results: CeleryResults | undefined
    try {
      results = await openResults(resultBackend, options, messages)
      const side = new CelerySide(options, results, messages)
      await side.#mingle()
      return side
    } catch (cause) {
      await results?.close()
      await messages?.close()
      throw cause
    }
  }

  /** Name of the worker among Celery's workers. */
  get node(): string {
    return `${this.#options.name}@${hostname()}`
  }

  /** Learns what Celery's other workers know, before the worker starts: it must not run a task that was revoked. */
  async #mingle(): Promise<void> {
    const [messages, events, revoked] = [this.#messages, this.#events, this.#reporter]
    if (messages === undefined || events === undefined) return
    const options = { messages, events, node: this.node, signal: this.#end.signal }
    await followClocks(options)
    await mingle({ ...options, revoked, log: this.#options.log })
  }

  /** Begins to execute commands for a worker that has started. */
  async serve(worker: Worker, shutdown: () => void): Promise<void> {
    this.#worker = worker
    const [messages, events] = [this.#messages, this.#events]
    if (messages === undefined || events === undefined) return
    const { client, taskNames, log } = this.#options
    await serveCeleryControl({
      messages,
      events,
      revoked: this.#reporter,
      worker,
      client,
      names: this.#names,
      totals: this.#totals,
      taskNames,
      node: this.node,
      heartbeat: () => this.#workerEvents?.beat(),
      shutdown,
      log,
      signal: this.#end.signal,
    })
  }

  /** Sends the last events and closes the connections. The worker must have stopped before. */
  async close(): Promise<void> {
    this.#workerEvents?.end()
    await this.#events?.flush()
    this.#end.abort()
    await this.#results.close()
    await this.#messages?.close()
  }

  #load() {
    const worker = this.#worker
    return { active: worker?.load.running ?? 0, processed: worker?.describe().processed ?? 0 }
  }
}
