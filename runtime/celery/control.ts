/** Executes commands of Celery's remote control, such as `celery inspect`, `celery control` and `celery status`. */
import { hostname, loadavg } from "node:os"
import * as Result from "effect/Result"
import type { Client } from "../client/client.ts"
import { CallboardError } from "../errors.ts"
import { cancelJob } from "../jobs/commands/cancel.ts"
import { findRecord } from "../jobs/tracking/finding.ts"
import type { Log } from "../log/log.ts"
import { type ControlRequest, isAsked, PIDBOX, parseControl, replyMessage } from "../protocol/celery-control.ts"
import { isObject } from "../protocol/guards.ts"
import type { Message } from "../protocol/message.ts"
import { isTerminal } from "../protocol/state.ts"
import type { CeleryMessages } from "../transport/celery.ts"
import { VERSION } from "../version.ts"
import type { ActiveDelivery, HandlerRun } from "../worker/active-delivery.ts"
import type { Worker } from "../worker/control/worker.ts"
import type { TaskNames, WorkerObserver } from "../worker/telemetry/observer.ts"
import type { CeleryEvents } from "./events.ts"
import { learn, type Revoked, toldOf } from "./mingle.ts"
import type { RevokedTask } from "./result-reporter.ts"

/** Most names that tasks are counted by, beside those of methods: a submitter may give each task a name of its own. */
const MAX_NAMES = 1_000

/** Counts the tasks that have begun to run, by the names that Celery's tools show; beyond the bound by those of their methods. */
export class TaskTotals implements WorkerObserver {
  readonly counts = new Map<string, number>()

  started(_active: ActiveDelivery, { record, method }: HandlerRun): void {
    const isKnown = this.counts.has(record.name) || this.counts.size < MAX_NAMES
    const name = isKnown ? record.name : `${method.actor}.${method.name}`
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1)
  }
}

/** The revoked tasks that this worker knows, whose results it keeps. */
export interface RevokedTasks extends Revoked {
  keepRevoked(tasks: ReadonlyArray<RevokedTask>, why: "revoked" | "terminated"): Promise<void>
}

export interface CeleryControlOptions {
  readonly messages: CeleryMessages
  readonly events: CeleryEvents
  readonly revoked: RevokedTasks
  readonly worker: Worker
  readonly client: Client
  readonly names: TaskNames
  readonly totals: TaskTotals
  /** Other names of methods, as the setting `taskNames` has them. */
  readonly taskNames: ReadonlyMap<string, string>
  /** Name of the worker among Celery's, such as `callboard@host`. */
  readonly node: string
  /** Sends a heartbeat to monitors now. */
  readonly heartbeat: () => void
  /** Begins the orderly stop of the service. */
  readonly shutdown: () => void
  readonly log: Log
  readonly signal: AbortSignal
}

type Arguments = ControlRequest["arguments"]

type Inspected = ReturnType<Worker["inspect"]>

type Named = Pick<Inspected["reserved"][number], "id" | "name">

/** A job that runs or waits here, with the name of its task, since the name of the job may be another one. */
type Typed<Job extends Named> = Job & { readonly type: string }

/** The value that a command replies with; `undefined` for a command without a reply. */
type Answer = unknown

const ok = (text: string) => ({ ok: text })
const error = (text: string) => ({ error: text })
/** An error in the form in which Celery's commands report one: the `repr` of a Python exception. */
const exception = (name: string, text: string) => error(`${name}(${JSON.stringify(text).replaceAll('"', "'")})`)

/** Executes commands until the signal fires. */
export const serveCeleryControl = async (options: CeleryControlOptions): Promise<void> => {
  const control = new CeleryControl(options)
  await options.messages.listen(PIDBOX, (message) => void control.receive(message), options.signal)
}

class CeleryControl {
  readonly #options: CeleryControlOptions
  /** Lamport clock of the commands and replies. The clock of events is another one. */
  #clock = 0
  readonly #startedAt = Date.now()

  constructor(options: CeleryControlOptions) {
    this.#options = options
  }

  /** Executes a command and replies to it. Never rejects. */
  async receive(message: Message): Promise<void> {
    const { node, messages, log } = this.#options
    const parsed = parseControl(message)
    if (Result.isFailure(parsed)) {
      log.debug("a Celery command cannot be read", { cause: parsed.failure.message })
      return
    }
    const request = parsed.success
    this.#clock = Math.max(this.#clock, request.clock) + 1
    const asked = isAsked(request, node)
    if (asked === false) return
    const value = asked === "unsupported" ? error(unsupportedMatcher(request)) : await this.#answer(request)
    if (request.reply === null || value === undefined) return
    const { exchange, routingKey, ticket } = request.reply
    const reply = replyMessage({ node, value }, ticket, ++this.#clock)
    if (Result.isFailure(reply)) return
    await messages
      .send(exchange, routingKey, reply.success)
      .catch((cause: unknown) => log.debug("a Celery command could not be answered", { cause: String(cause) }))
  }

  async #answer({ method, arguments: given }: ControlRequest): Promise<Answer> {
    try {
      const command = this.#commands[method]
      return command === undefined ? error(`KeyError('${method}')`) : await command(given)
    } catch (cause) {
      if (cause instanceof CallboardError) return error(cause.message)
      this.#options.log.error(`${method} of Celery's remote control failed`, { cause: String(cause) })
      return exception("RuntimeError", String(cause))
    }
  }

  readonly #commands: Readonly<Record<string, (given: Arguments) => Answer | Promise<Answer>>> = {
    ping: () => ok("pong"),
    clock: () => ({ clock: this.#options.events.clock }),
    hello: (given) => this.#hello(given),
    active: () => this.#jobs.active.map((job) => this.#active(job)),
    dump_active: (given) => this.#commands["active"]?.(given),
    reserved: () => this.#jobs.reserved.map((job) => this.#reserved(job)),
    dump_reserved: (given) => this.#commands["reserved"]?.(given),
    // Scheduled tasks wait in the transport, not in a worker.
    scheduled: () => [],
    dump_schedule: () => [],
    revoked: () => [...this.#options.revoked.revoked.keys()],
    dump_revoked: () => [...this.#options.revoked.revoked.keys()],
    registered: () => this.#registered,
    dump_tasks: () => this.#registered,
    query_task: ({ ids }) => this.#query(textsOf(ids)),
    active_queues: () => this.#options.worker.queues.map(queueInfo),
    stats: () => this.#stats(),
    conf: () => this.#conf(),
    dump_conf: () => this.#conf(),
    report: () => ok(`software -> callboard:${VERSION} ${process.release.name}:${process.version}`),
    memsample: () => `${Math.round(process.memoryUsage().rss / 1024 / 1024)}MB`,
    revoke: (given) => this.#revoke(given),
    terminate: (given) => this.#revoke({ ...given, terminate: true }),
    revoke_by_stamped_headers: (given) => this.#revokeByHeaders(given),
    rate_limit: ({ task_name, rate_limit }) => this.#rateLimit(String(task_name), rate_limit),
    time_limit: ({ task_name, hard, soft }) => this.#timeLimit(String(task_name), hard, soft),
    pool_grow: ({ n }) => this.#resize(numberOf(n) ?? 1),
    pool_shrink: ({ n }) => this.#resize(-(numberOf(n) ?? 1)),
    autoscale: ({ max, min }) => this.#autoscale(numberOf(max), numberOf(min)),
    pool_restart: () => exception("ValueError", "Pool restarts not enabled"),
    add_consumer: (given) => {
      const queue = String(given.queue)
      const refused = unservedBinding(given)
      if (refused !== undefined) return error(refused)
      const added = this.#options.worker.addQueue(queue)
      return ok(added ? `add consumer ${queue}` : `already consuming from ${queue}`)
    },
    cancel_consumer: ({ queue }) => {
      this.#options.worker.removeQueue(String(queue))
      return ok(`no longer consuming from ${String(queue)}`)
    },
    enable_events: () => this.#enableEvents(true),
    disable_events: () => this.#enableEvents(false),
    heartbeat: () => {
      this.#options.heartbeat()
      return undefined
    },
    shutdown: () => {
      this.#options.log.info("stopped by Celery's remote control")
      setTimeout(this.#options.shutdown, 0)
      return undefined
    },
    election: () => undefined,
  }

  /** A worker that starts tells which tasks it knows to be revoked, and learns that from the others. */
  #hello({ from_node, revoked: theirs }: Arguments): Answer {
    const { node, revoked, events } = this.#options
    if (from_node === node) return undefined
    learn(revoked, theirs)
    return { revoked: toldOf(revoked), clock: events.clock }
  }

  get #registered(): ReadonlyArray<string> {
    const { names, taskNames } = this.#options
    return [...new Set([...names.all, ...taskNames.keys()])].sort()
  }

  get #jobs() {
    const { active, reserved, tasks } = this.#options.worker.inspect()
    const typed = <Job extends Named>(job: Job): Typed<Job> => ({ ...job, type: tasks.get(job.id) ?? job.name })
    return { active: active.map((job) => typed(job)), reserved: reserved.map((job) => typed(job)) }
  }

  #active({ startedAt, ...job }: Typed<Inspected["active"][number]>) {
    return { ...this.#info(job), time_start: Date.parse(startedAt) / 1000, acknowledged: false }
  }

  #reserved(job: Typed<Inspected["reserved"][number]>) {
    return { ...this.#info(job), time_start: null, acknowledged: false }
  }

  #info({ id, name, type, queue }: Typed<Named & { readonly queue: string }>) {
    const { node } = this.#options
    const delivery_info = { exchange: "", routing_key: queue, priority: 0, redelivered: false }
    return { id, name, args: [], kwargs: {}, type, hostname: node, delivery_info, worker_pid: process.pid }
  }

  #query(ids: ReadonlyArray<string>) {
    const { active, reserved } = this.#jobs
    const found: Record<string, unknown> = {}
    for (const job of reserved) if (ids.includes(job.id)) found[job.id] = ["reserved", this.#reserved(job)]
    for (const job of active) if (ids.includes(job.id)) found[job.id] = ["active", this.#active(job)]
    return found
  }

  #stats() {
    const { worker, events, client, totals } = this.#options
    const { concurrency, capacity } = worker.describe()
    const { user, system } = process.cpuUsage()
    return {
      total: Object.fromEntries(totals.counts),
      pid: process.pid,
      clock: String(events.clock),
      uptime: Math.round((Date.now() - this.#startedAt) / 1000),
      pool: {
        implementation: "callboard",
        "max-concurrency": concurrency,
        processes: [process.pid],
        "max-tasks-per-child": "N/A",
        "put-guarded-by-semaphore": false,
        timeouts: [null, null],
        writes: "N/A",
      },
      broker: { transport: client.connection.transport.name },
      prefetch_count: capacity,
      rusage: {
        utime: user / 1_000_000,
        stime: system / 1_000_000,
        maxrss: Math.round(process.resourceUsage().maxRSS),
      },
      loadavg: loadavg(),
      hostname: hostname(),
    }
  }

  #conf() {
    const { worker } = this.#options
    return {
      worker_concurrency: worker.load.concurrency,
      task_queues: worker.queues,
      accept_content: ["json", "msgpack", "yaml"],
    }
  }

  async #revoke(given: Arguments): Promise<Answer> {
    const { revoked } = this.#options
    const ids = textsOf(given.task_id)
    const terminate = given.terminate === true
    revoked.revoke(ids)
    const ended = (await Promise.all(ids.map((id) => this.#end(id, terminate)))).flat()
    const done = new Set([...ended, ...this.#options.worker.inspect().active].map(({ id }) => id))
    const left = ids.filter((id) => !done.has(id)).map((id) => ({ id }))
    if (terminate) await revoked.keepRevoked(ended, "terminated")
    await revoked.keepRevoked([...left, ...(terminate ? [] : ended)], "revoked")
    if (!terminate) return ok(`tasks {${ids.map((id) => `'${id}'`).join(", ")}} flagged as revoked`)
    return ok(`terminate: ${ended.length === 0 ? "tasks unknown" : ended.map(({ id }) => id).join(", ")}`)
  }

  /**
   * Cancels the job of a revoked task, if there is one, and resolves with the task. A running job is cancelled only with
   * `terminate`.
   */
  async #end(id: string, terminate: boolean): Promise<ReadonlyArray<RevokedTask>> {
    const { client, log } = this.#options
    try {
      const { record } = await findRecord(client.connection, id)
      // The record of a job that has only just begun does not tell yet that it runs.
      const runs = record.state === "started" || this.#options.worker.inspect().active.some((job) => job.id === id)
      if (record.tombstone || isTerminal(record.state) || (runs && !terminate)) return []
      const { group = null, parentId = null, message } = record
      await cancelJob(client.connection, id, { terminate })
      return [{ id, group, parentId, replyTo: message?.properties.reply_to }]
    } catch (cause) {
      // Every worker executes the command: another worker may have cancelled the job, or there is no job with this id.
      log.debug("a revoked task was not cancelled", { job: id, cause: String(cause) })
      return []
    }
  }

  async #revokeByHeaders({ headers, terminate }: Arguments): Promise<Answer> {
    const { client } = this.#options
    const wanted = Object.entries(headersOf(headers))
    for (const [header, values] of wanted) {
      const [first, ...rest] = values
      if (first !== undefined) await client.revoke({ header, values: [first, ...rest], terminate: terminate === true })
    }
    return ok(
      `headers ${wanted.map(([header, values]) => `${header}=${values.join("|")}`).join(", ")} flagged as revoked`,
    )
  }

  #rateLimit(task: string, rate: unknown): Answer {
    const none = rate === null || rate === undefined || rate === "" || rate === 0 || rate === "0"
    try {
      const given = typeof rate === "number" ? `${rate}/s` : String(rate)
      const known = this.#options.worker.rateLimit(task, none ? null : given)
      if (!known) return error("unknown task")
      return ok(none ? "rate limit disabled successfully" : "new rate limit set successfully")
    } catch (cause) {
      return error(`Invalid rate limit string: ${cause instanceof Error ? cause.message : String(cause)}`)
    }
  }

  #timeLimit(task: string, hard: unknown, soft: unknown): Answer {
    const [hardS, softS] = [numberOf(hard), numberOf(soft)]
    const known = this.#options.worker.limitTime(task, {
      ...(hardS === undefined ? {} : { hardMs: hardS * 1000 }),
      softMs: softS === undefined ? null : softS * 1000,
    })
    return known ? ok("time limits set successfully") : error("unknown task")
  }

  #resize(by: number): Answer {
    const { worker } = this.#options
    worker.resize(worker.load.concurrency + by)
    return ok(by < 0 ? "pool will shrink" : "pool will grow")
  }

  #autoscale(max: number | undefined, min: number | undefined): Answer {
    const { worker } = this.#options
    const { concurrency } = worker.load
    const bounds = { min: min ?? Math.min(max ?? concurrency, concurrency), max: max ?? concurrency }
    worker.autoscale(bounds)
    return ok(`autoscale now max=${bounds.max} min=${bounds.min}`)
  }

  #enableEvents(on: boolean): Answer {
    const { events } = this.#options
    const changed = events.enabled !== on
    events.enabled = on
    const word = on ? "enabled" : "disabled"
    return ok(changed ? `task events ${word}` : `task events already ${word}`)
  }
}

const queueInfo = (name: string) => ({
  name,
  exchange: { name, type: "direct", durable: true },
  routing_key: name,
  durable: true,
  exclusive: false,
  auto_delete: false,
  no_ack: false,
})

/** Answered instead of silence, which would look as if the workers were gone. */
const unsupportedMatcher = ({ method, matcher }: ControlRequest): string =>
  `${method} is not executed: patterns of matcher ${matcher} are not supported; use matcher glob, or name the workers in destination`

/**
 * Why a worker cannot consume from a queue as Celery's `add_consumer` describes it; `undefined` where it can. A queue is
 * bound to the direct exchange of its own name by its own name, so tasks that are sent to another exchange would never come.
 */
const unservedBinding = ({ queue, ...options }: Arguments): string | undefined => {
  if (typeof queue !== "string") return "queue must name the queue"
  const served: Readonly<Record<string, ReadonlyArray<unknown>>> = {
    exchange: ["", queue],
    exchange_type: ["direct"],
    routing_key: ["", queue],
    durable: [true],
    auto_delete: [false],
    exclusive: [false],
  }
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === undefined || served[name]?.includes(value)) continue
    const only = "a worker consumes only from durable queues that are bound to the direct exchange of their own name"
    return `${name} ${JSON.stringify(value)} is not supported: ${only}`
  }
  return undefined
}

const numberOf = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) ? value : undefined

const textsOf = (value: unknown): ReadonlyArray<string> =>
  (Array.isArray(value) ? value : [value]).filter((each) => typeof each === "string")

/** Values by header name, from a map or from a list of `name=value`. */
const headersOf = (value: unknown): Readonly<Record<string, ReadonlyArray<string>>> => {
  if (Array.isArray(value)) {
    const pairs = textsOf(value).flatMap((pair) => {
      const at = pair.indexOf("=")
      return at <= 0 ? [] : [[pair.slice(0, at), [pair.slice(at + 1)]] as const]
    })
    return Object.fromEntries(pairs)
  }
  if (!isObject(value)) return {}
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [name, (Array.isArray(each) ? each : [each]).map(String)]),
  )
}
