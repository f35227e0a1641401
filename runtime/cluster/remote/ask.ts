/** The caller's side: sends a command to all workers or some, and collects what they answer in time. */
import { Result } from "effect"
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { generateId } from "../../id.ts"
import { didYouMean } from "../../options/suggest.ts"
import { parseDuration } from "../../protocol/time.ts"
import { listWorkers } from "../directory.ts"
import { parseCommand } from "./command.ts"
import { CONTROL_TOPIC, encode, type Reply, replyOf } from "./message.ts"

export interface CommandOptions {
  /** Names of the workers that are meant. Defaults to all that live. */
  readonly workers?: ReadonlyArray<string>
  /** Longest wait for answers: 50 ms to 1 minute. Defaults to 1 second, as Celery's. */
  readonly timeout?: number | string
}

const DEFAULT_TIMEOUT_MS = 1_000

const timeoutOf = (timeout: number | string | undefined): number => {
  if (timeout === undefined) return DEFAULT_TIMEOUT_MS
  const parsed = parseDuration(timeout)
  const ms = Result.isSuccess(parsed) ? parsed.success : Number.NaN
  if (ms >= 50 && ms <= 60_000) return ms
  throw new CallboardError("invalid-input", "timeout: must be from 50 ms to 1 minute", { field: "timeout" })
}

/** Who is asked: those that live, or those of them that were named. Fails with `not-found` on a name nobody has. */
const addressees = (living: ReadonlyArray<string>, named: ReadonlyArray<string> | undefined): ReadonlyArray<string> => {
  const unknown = named?.find((name) => !living.includes(name))
  if (unknown === undefined) return named ?? living
  const message = `there is no live worker ${JSON.stringify(unknown)}${didYouMean(unknown, living)}`
  throw new CallboardError("not-found", message, { field: "workers" })
}

/**
 * Asks, and resolves with one answer per worker that was asked, by name; one that stayed silent has an `error` that says
 * so. Fails with `invalid-input`, naming the argument, and with `not-found` for workers that do not live.
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
  const living = (await listWorkers(connection.store)).map(({ name }) => name)
  const asked = addressees(living, options.workers)
  if (asked.length === 0) return []
  const answers = new Map<string, Reply>()
  const all = Promise.withResolvers<void>()
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
    await connection.broadcast.send(CONTROL_TOPIC, encode({ ...checked.success, ...workers, reply }))
    const timer = setTimeout(() => all.resolve(), timeoutMs)
    await all.promise
    clearTimeout(timer)
  } finally {
    stop.abort()
  }
  const silent = (worker: string): Reply => ({ worker, error: `no answer within ${timeoutMs / 1000} s` })
  return asked.map((worker) => answers.get(worker) ?? silent(worker)).sort((a, b) => (a.worker < b.worker ? -1 : 1))
}
