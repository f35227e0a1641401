/** Lets a worker answer to commands that come over broadcast. They are served when they come, before any task. */
import { Result } from "effect"
import type { Board } from "../../board.ts"
import type { ActorDescription } from "../../directory.ts"
import { keepListening } from "../../listening.ts"
import type { Log } from "../../log.ts"
import { checkQueueName } from "../../protocol/name.ts"
import { parseDuration } from "../../protocol/time.ts"
import { type Call, parseCall } from "../../remote/call.ts"
import { type Answer, CONTROL_TOPIC, encode, questionOf } from "../../remote/message.ts"
import type { Worker } from "../interface.ts"

export interface RemoteControlOptions {
  readonly board: Board
  readonly worker: Worker
  readonly actors: ReadonlyArray<ActorDescription>
  /** Stops the service softly. */
  readonly shutdown: () => void
  readonly log: Log
  readonly signal: AbortSignal
}

/** Answers until the signal fires. */
export const obeyRemoteControl = (options: RemoteControlOptions): void => {
  const { board, worker, log, signal } = options
  const hear = (payload: Uint8Array): void => {
    const question = questionOf(payload)
    if (question === undefined || question.workers?.includes(worker.name) === false) return
    const answer = answerTo(question.command, question.arguments, options)
    board.broadcast
      .send(question.reply, encode(answer))
      .catch((cause: unknown) => log.debug("a command could not be answered", { cause: String(cause) }))
  }
  void keepListening(board.broadcast, CONTROL_TOPIC, hear, { log, signal })
}

const answerTo = (command: string, given: unknown, options: RemoteControlOptions): Answer => {
  const { worker, log } = options
  const call = parseCall(command, given)
  // Of a caller whose version knows more, or nothing, of it.
  if (Result.isFailure(call)) return { worker: worker.name, error: call.failure.message }
  try {
    const answer = obey(call.success, options)
    return { worker: worker.name, ...answer }
  } catch (cause) {
    log.error(`${command} failed`, { cause: String(cause) })
    return { worker: worker.name, error: String(cause) }
  }
}

type Outcome = Pick<Answer, "value" | "error">

const obey = (call: Call, { worker, actors, shutdown, log }: RemoteControlOptions): Outcome => {
  switch (call.command) {
    case "ping":
      return { value: "pong" }
    case "active":
      return { value: worker.inspect().active }
    case "reserved":
      return { value: worker.inspect().reserved }
    case "put-off":
      return { value: worker.putOff(call.arguments.id) }
    case "stats":
      return { value: { ...worker.describe(), uptimeSeconds: process.uptime(), memory: process.memoryUsage() } }
    case "registered":
      return { value: actors.map(({ name, methods }) => ({ name, methods: methods.map((method) => method.name) })) }
    case "queues":
      return { value: worker.queues }
    case "pool-grow":
      return resized(worker, worker.describe().concurrency + call.arguments.count)
    case "pool-shrink":
      return resized(worker, worker.describe().concurrency - call.arguments.count)
    case "autoscale":
      return autoscaled(worker, call.arguments)
    case "add-consumer":
      return listening(worker, call.arguments.queue)
    case "cancel-consumer":
      return worker.removeQueue(call.arguments.queue)
        ? { value: worker.queues }
        : { error: `it does not listen to ${call.arguments.queue}` }
    case "time-limit":
      return limited(worker, call.arguments)
    case "rate-limit":
      return rated(worker, call.arguments)
    case "enable-events":
      return { value: worker.events(true) ? "task events enabled" : "task events already enabled" }
    case "disable-events":
      return { value: worker.events(false) ? "task events disabled" : "task events already disabled" }
    case "shutdown":
      log.info("told to stop by remote control")
      // The answer goes out first.
      setTimeout(shutdown, 0)
      return { value: "stopping" }
  }
}

const resized = (worker: Worker, concurrency: number): Outcome => {
  if (concurrency < 1 || concurrency > 10_000) return { error: `${concurrency} handlers: must be from 1 to 10000` }
  worker.resize(concurrency)
  return { value: { concurrency } }
}

const autoscaled = (worker: Worker, bounds: { readonly min: number; readonly max: number }): Outcome => {
  if (bounds.min > bounds.max) return { error: "min: must not be more than max" }
  worker.autoscale(bounds)
  return { value: bounds }
}

const listening = (worker: Worker, queue: string): Outcome => {
  const checked = checkQueueName(queue)
  if (Result.isFailure(checked)) return { error: `queue: ${checked.failure.message}` }
  worker.addQueue(queue)
  return { value: worker.queues }
}

const rated = (worker: Worker, { task, rate }: { readonly task: string; readonly rate: number | string }): Outcome => {
  // Celery says 0 for no limit.
  const isNone = rate === "none" || rate === 0 || rate === "0"
  try {
    const known = worker.rateLimit(task, isNone ? null : rate)
    return known ? { value: { task, rate: isNone ? "none" : rate } } : { error: `nobody here serves ${task}` }
  } catch (cause) {
    return { error: cause instanceof Error ? cause.message : String(cause) }
  }
}

const limited = (
  worker: Worker,
  { task, hard, soft }: { readonly task: string; readonly hard: number | string; readonly soft?: number | string },
): Outcome => {
  const [hardMs, softMs] = [parseDuration(hard), soft === undefined ? undefined : parseDuration(soft)]
  if (Result.isFailure(hardMs)) return { error: `hard: ${hardMs.failure.message}` }
  if (softMs !== undefined && Result.isFailure(softMs)) return { error: `soft: ${softMs.failure.message}` }
  if (hardMs.success <= 0) return { error: "hard: must be more than 0" }
  if (softMs !== undefined && (softMs.success <= 0 || softMs.success >= hardMs.success))
    return { error: "soft: must be more than 0 and shorter than hard" }
  const known = worker.limitTime(task, { hardMs: hardMs.success, softMs: softMs?.success ?? null })
  return known ? { value: { task, hard, soft: soft ?? null } } : { error: `nobody here serves ${task}` }
}
