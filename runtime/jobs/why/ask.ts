/**
 * Collects the facts about one job from store, queue and workers, and says why it waits. Each question has a time
 * limit.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { listActors, listWorkers, WorkerDescription } from "../../cluster/directory.ts"
import { isSuspended, pausedQueues, suspensions } from "../../cluster/pausing.ts"
import { DEFERRAL_REASONS } from "../../cluster/postponements.ts"
import { QUEUE_LIMITS } from "../../cluster/queue-limits.ts"
import { askWorkers } from "../../cluster/remote-ask.ts"
import type { Reply } from "../../cluster/remote-command.ts"
import type { Connection } from "../../connection/connection.ts"
import { asTransportError, CallboardError } from "../../errors.ts"
import { compact } from "../../protocol/compact.ts"
import { DEFAULT_METHOD, resolveName } from "../../protocol/name.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { TransportError } from "../../transport/mod.ts"
import { within } from "../../transport/timers.ts"
import { findAll, findRecord, goneError } from "../tracking/finding.ts"
import { MAX_AHEAD, MAX_PARENTS_SHOWN, type QueuePosition, type WaitFacts, type Why } from "./cause.ts"
import { causesOf } from "./causes.ts"

export interface AskWhyOptions {
  readonly taskNames?: ReadonlyMap<string, string>
}

/** Longest wait for the record, without which there is no answer. */
const RECORD_MS = 3_000
/** Longest wait for everything else. */
const FACTS_MS = 2_000
/** Longest wait for workers: those that are alive answer within milliseconds, unless a handler blocks them. */
const WORKERS_MS = 500

/**
 * Why a job waits. Where the transport is down that is the cause. Fails with `not-found`, and with `gone` when only its
 * tombstone is left.
 */
export const askWhy = async (connection: Connection, id: string, options: AskWhyOptions = {}): Promise<Why> => {
  let record: JobRecord
  try {
    record = (await answered(RECORD_MS, findRecord(connection, id))).record
  } catch (cause) {
    if (cause instanceof CallboardError) throw cause
    const error = asTransportError(cause)
    if (!UNREACHABLE.includes(error.reason)) throw error
    return transportDown(id, error.message)
  }
  if (record.tombstone) throw goneError(id)
  const facts = await factsOf(connection, record, options)
  return { id, state: record.state, causes: causesOf(facts) }
}

const UNREACHABLE: ReadonlyArray<TransportError["reason"]> = ["unavailable", "closed", "unauthorized"]

export const transportDown = (id: string, why: string): Why => ({
  id,
  causes: [
    {
      code: "transport-down",
      message: `the transport is unreachable (${why}): until it is back, no job starts and the state of this one is unknown`,
      reason: why,
    },
  ],
})

const factsOf = async (connection: Connection, record: JobRecord, { taskNames }: AskWhyOptions): Promise<WaitFacts> => {
  const target = (hasActor: (name: string) => boolean) => {
    const { actor, meth } = resolveName(record.task, record.meth, hasActor, taskNames)
    return { actor, method: meth ?? DEFAULT_METHOD }
  }
  const { store, jobs } = connection
  if (isTerminal(record.state)) {
    // The handler of a job that was ended from outside may block its worker still.
    const [workers, actors] = await Promise.all([
      record.worker === undefined ? undefined : orUnknown(listWorkers(store)),
      record.state === "failed" ? orUnknown(listActors(store)) : undefined,
    ])
    const served = new Set(actors?.map(({ name }) => name))
    return { now: Date.now(), record, ...target((name) => served.has(name)), ...compact({ workers, actors }) }
  }
  const askAll = (command: string, given: object = {}) =>
    orUnknown(askWorkers(connection, command, given, { timeout: WORKERS_MS / 1_000 }))
  const [parents, paused, queueLimit, keys, living, actors, stats, reserved, postponements, waiting] =
    await Promise.all([
      record.state === "deferred" || record.waits?.jobs !== undefined
        ? orUnknown(parentsOf(connection, record))
        : undefined,
      orUnknown(pausedQueues(store)),
      orUnknown(QUEUE_LIMITS.get(store, record.queue)),
      orUnknown(suspensions(store)),
      orUnknown(listWorkers(store)),
      orUnknown(listActors(store)),
      askAll("stats"),
      askAll("reserved"),
      askAll("put-off", { id: record.id }),
      // Only a job that is due has a position in its queue.
      record.state === "queued" ? orUnknown(jobs.waiting?.({ queue: record.queue }, MAX_AHEAD + 1)) : undefined,
    ])
  const workers = living === undefined ? undefined : latest(living, stats ?? [])
  const served = new Set(workers?.flatMap((worker) => worker.actors))
  return {
    now: Date.now(),
    record,
    ...target((name) => served.has(name)),
    ...compact({ parents, paused, maxInFlight: queueLimit?.value?.maxInFlight }),
    ...compact({ suspended: keys && suspendedOf(keys, workers ?? []), workers, actors }),
    reservedBy: (reserved ?? []).filter(({ value }) => holds(value, record.id)).map(({ worker }) => worker),
    postponements: (postponements ?? []).flatMap(({ worker, value }) =>
      notesIn(value).map((note) => ({ ...note, worker })),
    ),
    ...(waiting === undefined ? {} : { position: { inQueue: positionIn(waiting, record.id) } }),
  }
}

const parentsOf = async (
  { jobs }: Connection,
  { after, waits }: JobRecord,
): Promise<NonNullable<WaitFacts["parents"]>> => {
  const ids = (waits?.jobs ?? after?.waiting ?? []).slice(0, MAX_PARENTS_SHOWN)
  const states = await findAll(jobs, ids, ({ record }) => (record.tombstone ? undefined : record.state))
  return ids.map((id) => {
    const state = states.get(id)
    return state === undefined ? { id } : { id, state }
  })
}

/** The value of a question; `undefined` where it fails or is not answered in time. */
const orUnknown = async <A>(work: Promise<A> | undefined): Promise<A | undefined> => {
  if (work === undefined) return undefined
  try {
    return await answered(FACTS_MS, work)
  } catch {
    return undefined
  }
}

const answered = <A>(ms: number, work: Promise<A>): Promise<A> =>
  within(ms, work, () => new TransportError("unavailable", `no answer within ${ms / 1000} s`))

const decodeWorker = Schema.decodeUnknownResult(WorkerDescription)

/** Each living worker as its answer to `stats` describes it; without an answer, as at its last heartbeat. */
const latest = (
  living: ReadonlyArray<WorkerDescription>,
  stats: ReadonlyArray<Reply>,
): ReadonlyArray<WorkerDescription> => {
  const now = new Map<string, WorkerDescription>()
  for (const { worker, value } of stats) {
    const decoded = decodeWorker(value)
    if (Result.isSuccess(decoded)) now.set(worker, decoded.success)
  }
  return living.map((worker) => now.get(worker.name) ?? worker)
}

const suspendedOf = (keys: ReadonlyArray<string>, workers: ReadonlyArray<WorkerDescription>): ReadonlyArray<string> =>
  workers.map(({ name }) => name).filter((name) => isSuspended(keys, name))

const decodeReserved = Schema.decodeUnknownResult(Schema.Array(Schema.Struct({ id: Schema.String })))

const holds = (value: unknown, id: string): boolean => {
  const decoded = decodeReserved(value)
  return Result.isSuccess(decoded) && decoded.success.some((task) => task.id === id)
}

const decodeNotes = Schema.decodeUnknownResult(
  Schema.Array(
    Schema.Struct({
      id: Schema.String,
      reason: Schema.Literals(DEFERRAL_REASONS),
      until: Schema.Finite,
      detail: Schema.String,
      waits: Schema.optionalKey(Schema.Boolean),
    }),
  ),
)

const notesIn = (value: unknown) => Result.getOrElse(decodeNotes(value), () => [])

/**
 * `waiting` holds the first jobs of the queue. A job that is not in a full list is further back; not in a shorter one,
 * it does not wait in the queue.
 */
const positionIn = (waiting: ReadonlyArray<string>, id: string): QueuePosition => {
  const at = waiting.indexOf(id)
  if (at >= 0) return { ahead: at }
  return waiting.length > MAX_AHEAD ? { ahead: MAX_AHEAD, more: true } : undefined
}
