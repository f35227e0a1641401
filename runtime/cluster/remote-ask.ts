/**
 * The caller's side of remote control: sends a command to all or some workers, and collects the replies that come in
 * time.
 */
import * as Result from "effect/Result"
import { deferred } from "../async/deferred.ts"
import type { Connection } from "../connection/connection.ts"
import { CallboardError } from "../errors.ts"
import { generateId } from "../id.ts"
import { didYouMean } from "../protocol/suggest.ts"
import { parseDuration } from "../protocol/time.ts"
import { listWorkers } from "./directory.ts"
import { COMMAND_TOPICS, COMMANDS, encode, parseCommand, type Reply, replyOf } from "./remote-command.ts"

export interface CommandOptions {
  /** Names of the workers to ask. Defaults to all living workers. */
  readonly workers?: ReadonlyArray<string> | undefined
  /** Longest wait for replies, in seconds or as text: 50 ms to 1 minute. Defaults to 1 second, as with Celery. */
  readonly timeout?: number | string | undefined
}

const DEFAULT_TIMEOUT_MS = 1_000

const timeoutOf = (timeout: number | string | undefined): number => {
  if (timeout === undefined) return DEFAULT_TIMEOUT_MS
  const parsed = parseDuration(timeout)
  const ms = Result.isSuccess(parsed) ? parsed.success : Number.NaN
  if (ms >= 50 && ms <= 60_000) return ms
  throw new CallboardError("invalid-input", "timeout: must be from 50 ms to 1 minute", { field: "timeout" })
}

/**
 * Names of the workers to ask: the named ones, else all living ones. Throws `not-found` where a named worker does not
 * live.
 */
const addressees = (living: ReadonlyArray<string>, named: ReadonlyArray<string> | undefined): ReadonlyArray<string> => {
  const unknown = named?.find((name) => !living.includes(name))
  if (unknown === undefined) return named ?? living
  const message = `no worker named ${JSON.stringify(unknown)} is running${didYouMean(unknown, living)}`
  throw new CallboardError("not-found", message, { field: "workers" })
}

/**
 * Sends a command, and resolves with one reply per worker that was asked, sorted by name. A worker that did not reply in
 * time has a reply with an `error` that says so. Fails with `invalid-input`, naming the argument, with `not-found` for a
 * worker that does not live, and with `TransportError`.
 */
export const askWorkers = async (
  connection: Connection,
  command: string,
  given: unknown,
  options: CommandOptions = {},
): Promise<ReadonlyArray<Reply>> => {
  const checked = parseCommand(command, given)
  if (Result.isFailure(checked)) throw checked.failure
  const timeoutMs = timeoutOf(options.timeout)
  const living = await listWorkers(connection.store)
  const asked = addressees(
    living.map(({ name }) => name),
    options.workers,
  )
  if (asked.length === 0) return []
  const answers = new Map<string, Reply>()
  const all = deferred<void>()
  const stop = new AbortController()
  const reply = `reply.${generateId()}`
  try {
    await connection.broadcast.listen(
      reply,
      (payload) => {
        const answer = replyOf(payload)
        if (answer === undefined || !asked.includes(answer.worker)) return
        answers.set(answer.worker, answer)
        if (answers.size === asked.length) all.resolve()
      },
      stop.signal,
    )
    const workers = options.workers === undefined ? {} : { workers: asked }
    const topic = COMMAND_TOPICS[COMMANDS[checked.success.command].kind]
    await connection.broadcast.send(topic, encode({ ...checked.success, ...workers, reply }))
    const timer = setTimeout(() => all.resolve(), timeoutMs)
    await all.promise
    clearTimeout(timer)
  } finally {
    stop.abort()
  }
  const silent = (worker: string): Reply => {
    const blocked = living.find(({ name }) => name === worker)?.blocked
    const why = blocked === undefined ? "" : `: the handler of job ${blocked.job ?? "unknown"} blocks it`
    return { worker, error: `no answer within ${timeoutMs / 1000} s${why}` }
  }
  return asked.map((worker) => answers.get(worker) ?? silent(worker)).sort((a, b) => (a.worker < b.worker ? -1 : 1))
}
