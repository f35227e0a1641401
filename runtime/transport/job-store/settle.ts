/**
 * Ends attempts: one commit each for the record, its follow-ups and the task. A batch is first committed in one call over
 * the revisions that are known here. Attempts whose commit met another revision then read the record, one by one.
 */
import { withMetaChange } from "../../protocol/meta-patch.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { isAwaited, mergedSignals } from "../../protocol/waits.ts"
import type { Commit, CommitRecord, Committed, Driver, Posting, TaskEnd } from "../driver.ts"
import { answerEach, asError } from "../mod.ts"
import type { Revision } from "../store.ts"
import { type DeliveryToken, readToken } from "./attempt.ts"
import { areDistinctJobs, type BatchedDriver, contended, MAX_TRIES } from "./batching.ts"
import { decodeStored, toCommitRecord, toPosting } from "./codec.ts"
import { missingFollowUps } from "./decide.ts"
import { isPreceded, judgeConflict } from "./judge.ts"
import type { OwnEnds } from "./own-ends.ts"
import type { Revisions } from "./revisions.ts"
import type { SettleAnswer, Settlement } from "./transport.ts"

interface EndCommit extends Commit {
  readonly task: TaskEnd
}

/** The end of an attempt, encoded: all that can fail without the driver has been done. */
interface PreparedEnd {
  readonly end: Settlement
  readonly attempt: DeliveryToken
  /** Absent where nothing is to be stored. */
  readonly wanted: JobRecord | undefined
  /** Its record, where it has one, expects the revision that is known here, or none. */
  readonly commit: EndCommit
  /** The stored record is not known here and has to be read before the commit. */
  readonly unread: boolean
}

const NONE: ReadonlyArray<Posting> = []

const ENDED: SettleAnswer = { status: "ended" }
const GONE: SettleAnswer = { status: "gone" }

const failedOf = (thrown: unknown): SettleAnswer => ({ status: "failed", error: asError(thrown) })

export class Settler {
  readonly #driver: Driver
  readonly #batched: BatchedDriver
  readonly #revisions: Revisions
  readonly #ownEnds: OwnEnds

  constructor(driver: Driver, batched: BatchedDriver, revisions: Revisions, ownEnds: OwnEnds) {
    this.#driver = driver
    this.#batched = batched
    this.#revisions = revisions
    this.#ownEnds = ownEnds
  }

  /** Rejects only with an error that the driver threw before anything was tried. */
  async settle(ends: ReadonlyArray<Settlement>): Promise<ReadonlyArray<SettleAnswer>> {
    const now = Date.now()
    const prepared = answerEach(ends, (end) => prepare(end, this.#revisions, now))
    const commits: Array<Commit> = []
    for (const each of prepared) if ("end" in each && !each.unread) commits.push(each.commit)
    const committed = await this.#commit(commits)
    const answers: Array<SettleAnswer> = []
    const later: Array<Promise<void>> = []
    let next = 0
    prepared.forEach((each, at) => {
      if (!("end" in each)) {
        answers[at] = each
        return
      }
      const first = each.unread ? undefined : committed[next++]
      if (first === undefined || first.status === "conflict") later.push(this.#endLater(each, answers, at))
      else answers[at] = this.#answer(each, first, each.commit.record)
    })
    if (later.length > 0) await Promise.all(later)
    return answers
  }

  async #endLater(prepared: PreparedEnd, answers: Array<SettleAnswer>, at: number): Promise<void> {
    answers[at] = await this.#endOverStored(prepared).catch(failedOf)
  }

  #commit(commits: ReadonlyArray<Commit>): Promise<ReadonlyArray<Committed>> {
    if (commits.length === 0) return Promise.resolve([])
    return areDistinctJobs(commits)
      ? this.#driver.commit(commits)
      : Promise.all(commits.map((commit) => this.#batched.commit(commit)))
  }

  /** `stored`: the record that the commit has stored. */
  #answer(
    prepared: PreparedEnd,
    committed: Exclude<Committed, { readonly status: "conflict" }>,
    stored?: CommitRecord,
  ): SettleAnswer {
    if (committed.status === "failed") return committed
    const { end, wanted, commit } = prepared
    if (stored !== undefined && wanted !== undefined && isTerminal(wanted.state))
      this.#ownEnds.stored(wanted.id, stored.bytes)
    // An attempt that was acked early commits its outcome later, over this revision. After an outcome nothing follows.
    if (wanted?.state === "started" && commit.task.kind === "ack") this.#revisions.set(end.token, committed.revision)
    else if (wanted !== undefined) this.#revisions.delete(end.token)
    return committed.gone ? GONE : ENDED
  }

  /** Reads the stored record, and commits over its revision where the attempt still has the job. */
  async #endOverStored(prepared: PreparedEnd): Promise<SettleAnswer> {
    const { end, attempt, wanted, commit } = prepared
    const { record } = commit
    if (wanted === undefined || record === undefined) return this.#endStored(prepared)
    const { id } = wanted
    for (let round = 0; round < MAX_TRIES; round++) {
      // Of a task that no claim could be made of, since it cannot be read.
      const isUnsure = attempt.external && id === attempt.id
      const known = await this.#batched.read(id, isUnsure ? "all" : "record")
      const stored = known?.record && decodeStored(known.record)
      const expect: Revision = known?.revision ?? ""
      const isTaken =
        stored === undefined && isUnsure && wanted.message && isPreceded(known, wanted.message, attempt, Date.now())
      const judgement = isTaken ? "superseded" : judgeConflict(stored, wanted, attempt)
      if (judgement === "superseded") {
        this.#revisions.delete(end.token)
        return { status: "superseded" }
      }
      if (judgement === "stored") return this.#endStored(prepared)
      const change = stored?.metaChange
      if (change !== undefined) this.#revisions.setChange(end.token, change)
      // A job that was cancelled meanwhile, and goes on, is still to be cancelled.
      const undo = isTerminal(wanted.state) || wanted.reverting !== undefined ? undefined : stored?.reverting
      const sent = stored === undefined || isTerminal(wanted.state) ? {} : mergedSignals(wanted, stored)
      const isSame = change === undefined && undo === undefined && sent.signals === undefined
      const merged = { ...withMetaChange(wanted, change), ...(undo && { reverting: undo }), ...sent }
      // What the job is about to wait for came while it ran, or the job was cancelled: it continues at once.
      const goesOn = wanted.waits !== undefined && (undo !== undefined || isAwaited(wanted.waits, sent.signals))
      const now = Date.now()
      const next = goesOn ? continued(merged) : merged
      const whole = isSame ? record : toCommitRecord(next, expect, now)
      const post = goesOn ? next.followUps?.map((posting) => toPosting(posting, now)) : undefined
      const committed = await this.#batched.commit({
        ...commit,
        ...(post === undefined ? {} : { post }),
        record: { ...whole, expect },
      })
      if (committed.status !== "conflict") return this.#answer(prepared, committed, whole)
    }
    return { status: "failed", error: contended(id) }
  }

  /** Where the record is stored already: publishes the follow-ups that are missing, and ends the task. */
  async #endStored(prepared: PreparedEnd): Promise<SettleAnswer> {
    const { end, attempt, commit } = prepared
    const { followUps = [] } = end
    const { id, post = NONE, task } = commit
    const out = new Set(await missingFollowUps(this.#batched, attempt.id, followUps))
    const rest = post.filter((_, at) => {
      const followUp = followUps[at]
      return followUp !== undefined && out.has(followUp)
    })
    const committed = await this.#batched.commit({ id, post: rest, task })
    return committed.status === "conflict" ? { status: "superseded" } : this.#answer(prepared, committed)
  }
}

/** The record of a job that was to wait and continues at once: its next task is due now. */
const continued = (record: JobRecord): JobRecord => {
  const { waits: _waits, dueAt: _due, timeline, followUps = [], ...kept } = record
  const suspended = timeline.at(-1)
  if (suspended === undefined) return record
  const { due: _at, ...transition } = suspended
  return {
    ...kept,
    state: "queued",
    timeline: [...timeline.slice(0, -1), { ...transition, state: "queued", reason: "signalled" }],
    followUps: followUps.map(({ due: _later, message, ...posting }) => ({
      ...posting,
      message: { ...message, headers: { ...message.headers, eta: null } },
    })),
  }
}

/** Fails with `invalid`. */
const prepare = (end: Settlement, revisions: Revisions, now: number): PreparedEnd => {
  const { token, record, followUps, then } = end
  const attempt = readToken(token)
  const expect = revisions.get(token) ?? (attempt.fresh ? "" : undefined)
  const { fence } = attempt
  const change = record && revisions.changeOf(token)
  const fenced = record === undefined || record.fence === fence ? record : { ...record, fence }
  const wanted = fenced && withMetaChange(fenced, change)
  const task: TaskEnd =
    then.kind === "ack"
      ? { kind: "ack", token: attempt.token }
      : { kind: "hand-back", token: attempt.token, delay: then.delay }
  const post = followUps === undefined ? NONE : followUps.map((posting) => toPosting(posting, now))
  return {
    end,
    attempt,
    wanted,
    commit:
      wanted === undefined
        ? { id: jobOf(attempt), post, task }
        : { id: wanted.id, record: toCommitRecord(wanted, expect ?? "", now), post, task },
    // Follow-ups without a record are of an outcome that another attempt has stored; that attempt may have published them.
    unread: wanted === undefined ? post.length > 0 : expect === undefined,
  }
}

/** Id for the commit. A message that cannot be read has no job, and its attempt's name stands in. */
const jobOf = ({ id, fence }: DeliveryToken): string => (id === "" ? fence : id)
