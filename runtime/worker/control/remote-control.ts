/** Executes remote commands that arrive by broadcast. They are executed on arrival, before any task. */
import * as Result from "effect/Result"
import type { ActorDescription } from "../../cluster/directory.ts"
import {
  type Answers,
  COMMAND_TOPICS,
  COMMANDS,
  type Command,
  type CommandName,
  commandOf,
  encode,
  isNoRate,
  parseCommand,
  type Reply,
} from "../../cluster/remote-command.ts"
import { type Connection, keepListening } from "../../connection/connection.ts"
import type { Log } from "../../log/log.ts"
import { isHandlerCount, MAX_HANDLERS } from "../../options/autoscale.ts"
import { timeLimitOf } from "../../options/duration.ts"
import { compact } from "../../protocol/compact.ts"
import type { Worker } from "./worker.ts"

export interface RemoteControlOptions {
  readonly connection: Connection
  readonly worker: Worker
  readonly actors: ReadonlyArray<ActorDescription>
  /** Starts a soft stop of the service. */
  readonly shutdown: () => void
  readonly log: Log
  readonly signal: AbortSignal
}

/** Executes commands until the signal fires. */
export const serveRemoteControl = (options: RemoteControlOptions): void => {
  const { connection, worker, log, signal } = options
  const receive = (kind: Kind, payload: Uint8Array): void => {
    const question = commandOf(payload)
    if (question === undefined || question.workers?.includes(worker.name) === false) return
    const answer = answerTo(question.command, question.arguments, kind, options)
    connection.broadcast
      .send(question.reply, encode(answer))
      .catch((cause: unknown) => log.debug("a command could not be answered", { cause: String(cause) }))
  }
  for (const kind of ["inspect", "control"] as const)
    void keepListening(connection.broadcast, COMMAND_TOPICS[kind], (payload) => receive(kind, payload), { log, signal })
}

type Kind = keyof typeof COMMAND_TOPICS

/** `kind` is that of the topic, on which no command of the other kind is executed. */
const answerTo = (command: string, given: unknown, kind: Kind, options: RemoteControlOptions): Reply => {
  const { worker, log } = options
  const call = parseCommand(command, given)
  // The caller's version knows a command or an argument that this one does not.
  if (Result.isFailure(call)) return { worker: worker.name, error: call.failure.message }
  if (COMMANDS[call.success.command].kind !== kind)
    return { worker: worker.name, error: `${command}: not a command of the topic ${COMMAND_TOPICS[kind]}` }
  try {
    const answer = execute(call.success, options)
    return { worker: worker.name, ...answer }
  } catch (cause) {
    log.error(`${command} failed`, { cause: String(cause) })
    return { worker: worker.name, error: String(cause) }
  }
}

type Outcome = Pick<Reply, "value" | "error">

/** A successful answer; the compiler checks that its value fits the command. */
const value = <C extends CommandName>(_command: C, value: Answers[C]): Outcome => ({ value })

const execute = (call: Command, { worker, actors, shutdown, log }: RemoteControlOptions): Outcome => {
  switch (call.command) {
    case "ping":
      return value(call.command, "pong")
    case "active":
      return value(call.command, worker.inspect().active)
    case "reserved":
      return value(call.command, worker.inspect().reserved)
    case "put-off":
      return value(call.command, worker.postpone(call.arguments.id))
    case "stats":
      return value(call.command, {
        ...worker.describe(),
        uptimeSeconds: process.uptime(),
        memory: process.memoryUsage(),
      })
    case "registered":
      return value(
        call.command,
        actors.map(({ name, methods }) => ({ name, methods: methods.map((method) => method.name) })),
      )
    case "queues":
      return value(call.command, worker.queues)
    case "pool-grow":
      return resized(worker, call.arguments.count)
    case "pool-shrink":
      return resized(worker, -call.arguments.count)
    case "autoscale":
      worker.autoscale(call.arguments)
      return value(call.command, call.arguments)
    case "add-consumer":
      worker.addQueue(call.arguments.queue)
      return value(call.command, worker.queues)
    case "cancel-consumer":
      return worker.removeQueue(call.arguments.queue)
        ? value(call.command, worker.queues)
        : { error: `queue: the worker does not consume ${call.arguments.queue}` }
    case "time-limit":
      return limited(worker, call.arguments)
    case "rate-limit":
      return rated(worker, call.arguments)
    case "enable-events":
      return value(call.command, worker.events(true) ? "task events enabled" : "task events already enabled")
    case "disable-events":
      return value(call.command, worker.events(false) ? "task events disabled" : "task events already disabled")
    case "shutdown":
      log.info("stopped by remote control")
      // The answer is sent before the stop begins.
      setTimeout(shutdown, 0)
      return value(call.command, "stopping")
  }
}

const resized = (worker: Worker, by: number): Outcome => {
  const { concurrency } = worker.load
  const wanted = concurrency + by
  if (!isHandlerCount(wanted)) {
    const [rule, max] =
      by < 0 ? ["must keep one", concurrency - 1] : [`can have ${MAX_HANDLERS}`, MAX_HANDLERS - concurrency]
    return { error: `count: the worker has ${concurrency} handler(s) and ${rule}: at most ${max}` }
  }
  worker.resize(wanted)
  return value(by < 0 ? "pool-shrink" : "pool-grow", { concurrency: wanted })
}

const rated = (worker: Worker, { task, rate }: { readonly task: string; readonly rate: number | string }): Outcome => {
  const isNone = isNoRate(rate)
  const known = worker.rateLimit(task, isNone ? null : rate)
  return known
    ? value("rate-limit", { task, rate: isNone ? "none" : rate })
    : { error: `task: this worker does not serve ${task}` }
}

const limited = (
  worker: Worker,
  { task, hard, soft }: { readonly task: string; readonly hard: number | string; readonly soft?: number | string },
): Outcome => {
  // The limits were validated with the command.
  const { hardMs, softMs } = timeLimitOf({ hard, soft }, "")
  const known = worker.limitTime(task, { ...compact({ hardMs }), softMs: softMs ?? null })
  return known
    ? value("time-limit", { task, hard, soft: soft ?? null })
    : { error: `task: this worker does not serve ${task}` }
}
