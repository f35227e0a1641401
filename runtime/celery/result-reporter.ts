/**
 * Completes tasks that clients of Celery have submitted: writes their results to Celery's back end, counts the members of
 * chords, and submits the body of a chord after its last member. All of this is done before the job's own record is stored:
 * if the worker dies in between, the task is delivered again and everything is repeated, as with `acks_late` of Celery.
 */
import { uptime } from "node:os"
import * as Result from "effect/Result"
import { Batcher } from "../async/batcher.ts"
import { generateId } from "../id.ts"
import { afterFailure, afterSuccess, type Ended } from "../jobs/outcome/follow-ups.ts"
import type { Log } from "../log/log.ts"
import { decodeBody, type Embed, NO_EMBED } from "../protocol/body.ts"
import { plainFollowUps } from "../protocol/celery/canvas.ts"
import { parseSignatures, type Signature } from "../protocol/celery/signature.ts"
import {
  chordResults,
  decodeMeta,
  encodeMember,
  encodeMeta,
  failureMeta,
  groupKey,
  joinedResults,
  metaKey,
  metaOfRecord,
  type OfTask,
  progressMeta,
  READY,
  RESULT_EXPIRES_S,
  type ResultMeta,
  type ResultTuple,
  revokedMeta,
} from "../protocol/celery-result.ts"
import { isExternal, parseTask, postingOfTask, type Task } from "../protocol/headers.ts"
import type { JobPosting } from "../protocol/message.ts"
import type { JobError, JobRecord, Progress } from "../protocol/record.ts"
import { traceContextOf } from "../protocol/trace-context.ts"
import type { CeleryMessages, CeleryResults, KeptResult } from "../transport/celery.ts"
import type { Settlement } from "../transport/job-store/transport.ts"
import { sleep } from "../transport/timers.ts"
import type { ActiveDelivery, ExternalTasks } from "../worker/active-delivery.ts"
import { parseDelivery } from "../worker/parsed-delivery.ts"
import { bodyRules, embedOf } from "../worker/run/handler-input.ts"
import type { TaskNames } from "../worker/telemetry/observer.ts"

export interface CompletionOptions {
  readonly results: CeleryResults
  /** The broker of Celery from which the tasks come; absent where they come over another transport. */
  readonly messages?: Pick<CeleryMessages, "priorityOf"> | undefined
  readonly names: TaskNames
  readonly maxBody: number
  readonly log: Log
  /** Ends further tries to write a result. */
  readonly signal: AbortSignal
}

/** How often a result is tried to be written. The waits in between double from `WAIT_MS`: about 13 seconds in all. */
const TRIES = 8
const WAIT_MS = 100

/** Most ids of revoked tasks that are kept, as many as Celery keeps: the oldest is removed first. */
const MAX_REVOKED = 50_000

/** A task of a Celery client whose attempt has ended in this worker. */
interface EndedTask {
  readonly task: Task
  readonly posting: JobPosting
  readonly embed: Embed
  readonly settlement: Settlement
  readonly ended: Ended
  readonly isFirst: boolean
}

export class ResultReporter implements ExternalTasks {
  readonly countsChords: boolean
  readonly #options: CompletionOptions
  readonly #revoked = new Map<string, number>()
  /** Group id of the chord of each body that is to be submitted with a settlement. */
  readonly #bodies = new WeakMap<JobPosting, string>()
  readonly #writes: Batcher<KeptResult, true>
  /** The write of the latest progress of each task that runs. */
  readonly #progress = new WeakMap<Task, Promise<unknown>>()

  constructor(options: CompletionOptions) {
    this.#options = options
    this.#writes = new Batcher(async (results) => {
      await options.results.write(results, RESULT_EXPIRES_S)
      return results.map(() => true)
    })
    this.countsChords = options.results.chords !== undefined
  }

  priorityOf(given: number | null): number | null {
    return this.#options.messages?.priorityOf(given) ?? given
  }

  isRevoked(task: Task): boolean {
    return this.#revoked.has(task.id) && isExternal(task)
  }

  get revoked(): ReadonlyMap<string, number> {
    return this.#revoked
  }

  revoke(ids: ReadonlyArray<string>, at = Math.floor(uptime()) + 0.5): void {
    for (const id of ids) {
      this.#revoked.delete(id)
      this.#revoked.set(id, at)
    }
    for (const id of this.#revoked.keys()) {
      if (this.#revoked.size <= MAX_REVOKED) break
      this.#revoked.delete(id)
    }
  }

  completing(active: ActiveDelivery, settlement: Settlement): Promise<Settlement> | undefined {
    if (settlement.then.kind !== "ack") return undefined
    if (settlement.record === undefined && active.stop !== "cancelled") return undefined
    const ended = this.#endedTask(active, settlement)
    return ended === undefined ? undefined : this.#complete(ended)
  }

  async report(record: JobRecord, post: (followUps: ReadonlyArray<JobPosting>) => Promise<void>): Promise<void> {
    const { message, queue } = record
    const task = message && Result.getOrUndefined(parseTask(message))
    const posting = message && task && Result.getOrUndefined(postingOfTask(task, message, queue))
    if (task === undefined || posting === undefined || !isExternal(task)) return
    const embed = embedOf(posting, bodyRules({ maxBody: this.#options.maxBody, external: this }, task))
    const settlement: Settlement = { token: "", record, then: { kind: "ack" } }
    const told = await this.#keep({
      task,
      posting,
      embed,
      settlement,
      ended: this.#ended(task, posting),
      isFirst: false,
    })
    await post(told.followUps ?? [])
    this.settled(told)
  }

  progressed(task: Task, { message }: JobPosting, progress: Progress): void {
    if (task.ignoreResult || !isExternal(task)) return
    const { reply_to: replyTo } = message.properties
    const result = { key: metaKey(task.id), value: encoded(progressMeta(task, progress)), replyTo }
    const told = Promise.all([this.#progress.get(task), this.#writes.add(result)])
    this.#progress.set(
      task,
      told.catch((cause: unknown) =>
        this.#options.log.debug("progress could not be reported", { job: task.id, cause: String(cause) }),
      ),
    )
  }

  #endedTask(active: ActiveDelivery, settlement: Settlement): EndedTask | undefined {
    const { run, delivery } = active
    if (run !== undefined && !isExternal(run.task)) return undefined
    const parsed = run ?? Result.getOrUndefined(parseDelivery(delivery))
    if (parsed === undefined || !isExternal(parsed.task)) return undefined
    const { task, posting } = parsed
    // The result under its id is that of another job.
    if (settlement.record !== undefined && settlement.record.id !== posting.id) return undefined
    const rules = bodyRules({ maxBody: this.#options.maxBody, external: this }, task)
    const embed = run?.embed ?? embedOf(posting, rules)
    return { task, posting, embed, settlement, ended: this.#ended(task, posting), isFirst: delivery.fresh }
  }

  #ended(task: Task, posting: JobPosting): Ended {
    const { names } = this.#options
    const now = Date.now()
    return {
      task,
      now,
      trace: traceContextOf(task),
      newId: () => generateId(now),
      queueFor: (name, meth) => names.method(name, meth)?.queue ?? posting.queue,
      redactFor: (name, meth) => names.method(name, meth)?.redact,
      isExternal: true,
      priorityOf: (given) => this.priorityOf(given),
    }
  }

  async #complete(of: EndedTask): Promise<Settlement> {
    const { log, signal } = this.#options
    for (let tried = 1; ; tried++) {
      try {
        return await this.#keep(of)
      } catch (cause) {
        if (tried >= TRIES || signal.aborted) {
          log.error("a result could not be stored for Celery clients", { job: of.task.id, cause: String(cause) })
          return of.settlement
        }
        await sleep(WAIT_MS * 2 ** (tried - 1), signal)
      }
    }
  }

  async #keep(of: EndedTask): Promise<Settlement> {
    const { task, posting, embed, settlement, ended, isFirst } = of
    const { record, followUps = [] } = settlement
    const now = ended.now
    await this.#expect(followUps)
    // Celery counts what follows a failure among no task's children.
    const children = record?.state === "succeeded" ? childrenOf(followUps) : []
    const meta =
      record === undefined
        ? revokedMeta(task, now, "terminated")
        : metaOfRecord({ ...record, result: record.result ?? settlement.ignored }, task, now, children)
    if (meta === undefined) return settlement
    // Otherwise a late write of the progress could replace the result.
    const told = this.#progress.get(task)
    if (told !== undefined) await told
    const later = meta.status === "FAILURE" || meta.status === "REVOKED" ? stepsAfter(embed, meta) : []
    const result = { meta, replyTo: posting.message.properties.reply_to }
    await this.#write(task.ignoreResult ? later : [result, ...later], isFirst)
    if (!READY.has(meta.status)) return settlement
    const chords = [
      ...(embed.chord === null ? [] : [{ body: embed.chord, of: task, meta }]),
      ...later.flatMap(({ chord }) => (chord === null ? [] : [chord])),
    ]
    const bodies: Array<JobPosting> = []
    for (const chord of chords) bodies.push(...(await this.#counted(chord, ended)))
    return bodies.length === 0 ? settlement : withFollowUps(settlement, bodies)
  }

  /** Stores the sizes of the chords that these tasks begin, before their first member is submitted. */
  async #expect(followUps: ReadonlyArray<JobPosting>): Promise<void> {
    const { results, maxBody } = this.#options
    const sizes = new Map<string, number>()
    for (const { message } of followUps) {
      const { group } = message.headers
      const { chord, chain } = Result.getOrElse(
        Result.map(decodeBody(message, { maxBytes: maxBody }), ({ embed }) => embed),
        () => NO_EMBED,
      )
      const last = chain?.[0]?.options ?? {}
      const [body] = chord === null ? stepsOf(last.chord) : [chord]
      const of = chord === null ? last.group_id : group
      const size = body?.chord_size
      if (typeof of === "string" && typeof size === "number") sizes.set(of, size)
    }
    for (const [group, size] of sizes) await results.chords?.expect(group, size, RESULT_EXPIRES_S)
  }

  /** Writes results. A stored success is kept: when a task is delivered again, another worker may have completed it. */
  async #write(told: ReadonlyArray<Told>, isFirst: boolean): Promise<void> {
    const { results } = this.#options
    const before = isFirst ? [] : await results.read(told.map(({ meta }) => metaKey(meta.task_id)))
    const kept = told
      .filter((_, at) => !isSuccess(before[at]))
      .map(({ meta, replyTo }) => ({ key: metaKey(meta.task_id), value: encoded(meta), replyTo }))
    await Promise.all(kept.map((result) => this.#writes.add(result)))
  }

  /** Counts a member of a chord. Resolves with the tasks of the chord's body once all members have ended, else with none. */
  async #counted({ body, of, meta }: CountedMember, ended: Ended): Promise<ReadonlyArray<JobPosting>> {
    const { results, log } = this.#options
    const { group } = of
    const { chords } = results
    if (typeof group !== "string" || chords === undefined) return []
    const value = Result.getOrThrow(Result.mapError(encodeMember(meta), ({ message }) => new Error(message)))
    const count = await chords.count({ group, id: of.id, index: of.groupIndex ?? null, value }, RESULT_EXPIRES_S)
    if (count.size === undefined || count.ended < count.size) return []
    const saved = (await results.read([groupKey(group)]))[0]
    const values =
      saved === undefined
        ? chordResults(await chords.members(group))
        : await joinedResults(saved, (ids) => results.read(ids.map(metaKey)))
    const bodies = await this.bodyOf(body, values, ended)
    log.debug("the members of a chord have ended", { group, size: count.size })
    // The counters are kept until the body is stored: if this worker dies before, the member is delivered and counted again.
    for (const posting of bodies) this.#bodies.set(posting, group)
    if (bodies.length === 0) await chords.forget(group)
    return bodies
  }

  /** The tasks of a chord's body. If a member has failed, the body gets a failed result, and its errbacks are the tasks. */
  async bodyOf(
    body: Signature,
    values: Result.Result<ReadonlyArray<unknown>, JobError>,
    ended: Ended,
  ): Promise<ReadonlyArray<JobPosting>> {
    const tasks = Result.isSuccess(values)
      ? afterSuccess({ ...NO_EMBED, callbacks: [body] }, values.success, ended)
      : await this.#failBody(body, values.failure, ended)
    // The body may be a chord itself.
    await this.#expect(tasks)
    return tasks
  }

  /**
   * Writes the failure of a chord's body. Resolves with its errbacks, and with the bodies of chords of which it was the last
   * member.
   */
  async #failBody(body: Signature, error: JobError, ended: Ended): Promise<ReadonlyArray<JobPosting>> {
    const plain = Result.getOrUndefined(plainFollowUps({ callbacks: [body], errbacks: null, chain: null }, true))
    const tasks = (plain?.callbacks ?? []).flatMap((first) => [first, ...stepsOf(first.options.chain)])
    const failures = stepsAfter({ chain: tasks }, failureMeta(error, { id: "", task: "" }, ended.now))
    await this.#write(failures, false)
    const bodies: Array<JobPosting> = []
    for (const { chord } of failures) if (chord !== null) bodies.push(...(await this.#counted(chord, ended)))
    const errbacks = tasks.slice(0, 1).flatMap(({ options }) => stepsOf(options.link_error))
    const [first] = failures
    const failed: Ended = first === undefined ? ended : { ...ended, task: { ...ended.task, id: first.meta.task_id } }
    return errbacks.length === 0 ? bodies : [...afterFailure({ ...NO_EMBED, errbacks }, error, failed), ...bodies]
  }

  /** Called once a settlement is stored. Removes the counters of chords whose body was submitted with it. */
  settled(settlement: Settlement): void {
    const { results, log } = this.#options
    for (const posting of settlement.followUps ?? []) {
      const group = this.#bodies.get(posting)
      if (group === undefined) continue
      results.chords
        ?.forget(group)
        .catch((cause: unknown) =>
          log.debug("the counters of a chord were not removed", { group, cause: String(cause) }),
        )
    }
  }

  /** Writes results that say that tasks were revoked, except for tasks that have succeeded. */
  async keepRevoked(tasks: ReadonlyArray<RevokedTask>, why: "revoked" | "terminated"): Promise<void> {
    await this.#write(
      tasks.map(({ replyTo, ...of }) => ({ meta: revokedMeta({ ...of, task: "" }, Date.now(), why), replyTo })),
      false,
    )
  }
}

/** The results of follow-ups. Those that are members of one group are one result, that of the group. */
const childrenOf = (followUps: ReadonlyArray<JobPosting>): ReadonlyArray<ResultTuple> => {
  const groups = Map.groupBy(followUps, ({ id, message }) => message.headers.group ?? id)
  return [...groups].map(([group, members]): ResultTuple => {
    const results = members.map(({ id }): ResultTuple => [[id, null], null])
    const [only] = results
    return only !== undefined && results.length === 1 ? only : [[String(group), null], results]
  })
}

/** A revoked task. `replyTo`: the queue from which its client reads the result, if that is known. */
export interface RevokedTask extends Pick<OfTask, "id" | "group" | "parentId"> {
  readonly replyTo?: string | undefined
}

/** A result, and the queue from which its client reads it. */
interface Told {
  readonly meta: ResultMeta
  readonly replyTo: string | undefined
}

/** A member of a chord that is to be counted. `body`: the body of that chord; `of`: the member. */
interface CountedMember {
  readonly body: Signature
  readonly of: OfTask & { readonly groupIndex?: number | null }
  readonly meta: ResultMeta
}

const encoded = (meta: ResultMeta): Uint8Array => {
  const bytes = encodeMeta(meta)
  if (Result.isSuccess(bytes)) return bytes.success
  const error = { name: "EncodeError", message: bytes.failure.message, reason: "result-unserialisable" }
  const of = { id: meta.task_id, task: "", group: meta.group_id ?? null, parentId: meta.parent_id ?? null }
  return Result.getOrThrow(encodeMeta(failureMeta(error, of, Date.now())))
}

const isSuccess = (bytes: Uint8Array | undefined): boolean => {
  if (bytes === undefined) return false
  const meta = decodeMeta(bytes)
  return Result.isSuccess(meta) && meta.success.status === "SUCCESS"
}

const replyToOf = ({ reply_to: queue }: Signature["options"]): string | undefined =>
  typeof queue === "string" ? queue : undefined

const stepsOf = (value: unknown): ReadonlyArray<Signature> =>
  Result.getOrElse(parseSignatures(value, "options"), () => null) ?? []

/**
 * The results of the links of a chain that will not run because a link before them has failed: each gets the same failure,
 * and is counted in its chord.
 */
const stepsAfter = (
  { chain }: Pick<Embed, "chain">,
  failed: ResultMeta,
): ReadonlyArray<Told & { readonly chord: CountedMember | null }> =>
  (chain ?? []).flatMap(({ options }) => {
    const { task_id: id, group_id: group, group_index: index } = options
    if (typeof id !== "string") return []
    const { parent_id: _parent, group_id: _group, ...same } = failed
    const meta = { ...same, ...(typeof group === "string" ? { group_id: group } : {}), task_id: id, children: [] }
    const [body] = stepsOf(options.chord)
    const of = {
      id,
      task: "",
      ...(typeof group === "string" ? { group } : {}),
      groupIndex: typeof index === "number" ? index : null,
    }
    return [{ meta, replyTo: replyToOf(options), chord: body === undefined ? null : { body, of, meta } }]
  })

const withFollowUps = (settlement: Settlement, more: ReadonlyArray<JobPosting>): Settlement => {
  const followUps = [...(settlement.followUps ?? []), ...more]
  const { record } = settlement
  return { ...settlement, followUps, ...(record === undefined ? {} : { record: { ...record, followUps } }) }
}
