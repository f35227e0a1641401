/**
 * Commits: the record by compare-and-set, then postings, then the task, in one transaction. The usual commit, which
 * ends a delivery whose job has not changed since the runtime read it, takes two updates.
 */
import type { Commit, Committed, TaskEnd } from "../../../runtime/transport/driver.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import type { Database } from "../database/database.ts"
import { type PostingColumns, type RecordColumns, recordColumns, untilOf } from "../jobs/columns.ts"
import { type IdColumn, idToColumn, readToken, type Token } from "../jobs/id.ts"
import type { JobTable } from "../jobs/job-table.ts"
import type { QueueNames } from "../jobs/queue-names.ts"
import type { TaskPublisher } from "../queue/publish.ts"
import type { Transaction } from "../writing/transaction.ts"

/** A commit whose parts were checked before the write lock is taken. */
export interface PreparedCommit {
  readonly commit: Commit
  readonly id: IdColumn
  readonly record: RecordColumns | undefined
  /** Revision that the stored record must have; `null` if no record may be stored. */
  readonly expect: number | null
  readonly post: ReadonlyArray<PostingColumns>
  /** The delivery to be ended; `undefined` if the text is not a token of this transport. */
  readonly token: Token | undefined
}

const NONE: ReadonlyArray<PostingColumns> = []

const REVISION = /^[1-9]\d{0,15}$/

/** Stands for a conflict; no row has this revision. */
const NO_REVISION = -1

export class Committer {
  readonly #ns: number
  readonly #jobs: JobTable
  readonly #names: QueueNames
  readonly #publisher: TaskPublisher
  readonly #end
  readonly #endLoad

  constructor(database: Database, ns: number, jobs: JobTable, names: QueueNames, publisher: TaskPublisher) {
    this.#ns = ns
    this.#jobs = jobs
    this.#names = names
    this.#publisher = publisher
    // The condition covers everything that would need another statement. If it does not hold, no row matches, and the
    // commit takes the general way.
    this.#end = database.prepare(
      `UPDATE callboard_job SET at = NULL, state = ?, rev = ?, until = ?
       WHERE seq = ? AND fence = ? AND at IS NOT NULL AND of IS NULL AND rev IS ? AND expires IS NULL
         AND ns = ? AND id = ? AND queue = ? AND task = ? AND hidden = 0 AND dead = 0 AND error IS NULL`,
    )
    this.#endLoad = database.prepare("UPDATE callboard_load SET frame = NULL, record = ? WHERE seq = ?")
  }

  /** Checks the parts of a commit before the write lock is taken. Fails with `invalid` or `too-large`. */
  prepare(commit: Commit): PreparedCommit {
    const { id, record, post, task } = commit
    const columns = record && recordColumns(id, record)
    return {
      commit,
      id: columns?.id ?? idToColumn(id),
      record: columns,
      expect: record === undefined || record.expect === "" ? null : revisionOf(record.expect),
      post: post?.map((posting) => this.#publisher.prepare(posting)) ?? NONE,
      token: task && endedBy(task),
    }
  }

  commit(transaction: Transaction, prepared: PreparedCommit): Committed {
    const { commit, id, record, post, token } = prepared
    const { task } = commit
    if (commit.unique) {
      const known = post.filter((posting) => this.#publisher.knows(posting, transaction.now))
      if (known.length > 0) return { status: "conflict", known: known.map(({ posting }) => posting.id) }
    }
    let revision = 0
    let gone = false
    if (record !== undefined && token !== undefined && task?.kind === "ack") {
      revision = this.#endAtOnce(transaction, prepared, record, token)
    }
    if (revision === 0) {
      if (record !== undefined) revision = this.#store(transaction, prepared, record)
      if (revision === NO_REVISION) return { status: "conflict" }
      // The task is ended before the postings, so that the job's next task can use its row. Both are in one
      // transaction, so that no reader sees the step between.
      if (task?.kind === "withdraw") this.#withdraw(transaction, id)
      else if (task !== undefined) gone = token === undefined || !this.#endTask(transaction, token, task)
    }
    if (record !== undefined && transaction.jobsWatched)
      transaction.jobChanges.push({ id: commit.id, record: record.bytes })
    for (const posting of post) this.#publisher.post(transaction, posting)
    const committed = { status: "committed", revision: revision === 0 ? "" : String(revision) } as const
    return gone ? { ...committed, gone: true } : committed
  }

  /**
   * The usual case: the delivery still has the task of the job whose record is stored, and of the columns that lists
   * search only the state changes. Returns the revision; 0 if the general way is needed.
   */
  #endAtOnce(transaction: Transaction, { expect }: PreparedCommit, columns: RecordColumns, token: Token): number {
    const { id, index, bytes, state } = columns
    const queue = this.#names.find(index.queue)
    if (queue === undefined || index.hidden || index.dead || index.error !== undefined) return 0
    const revision = transaction.next()
    const until = untilOf(columns, transaction.now)
    const { seq, fence } = token
    const { changes } = this.#end.run(state, revision, until, seq, fence, expect, this.#ns, id, queue, index.task)
    if (changes === 0) return 0
    this.#endLoad.run(bytes, seq)
    return revision
  }

  /** Stores the record. Returns its revision; {@link NO_REVISION} if the stored record is not the expected one. */
  #store(transaction: Transaction, { commit, expect, token }: PreparedCommit, columns: RecordColumns): number {
    const job = this.#jobs.current(columns.id, transaction.now)
    if ((job?.rev ?? null) !== expect) return NO_REVISION
    const revision = transaction.next()
    if (job === undefined) {
      this.#jobs.insertRecord(columns, transaction.next(), revision, transaction.now)
    } else {
      const { kind } = commit.task ?? {}
      const leaves = kind === "withdraw" || (kind === "ack" && token?.seq === job.seq && token.fence === job.fence)
      this.#jobs.putRecord(leaves ? { ...job, at: null } : job, columns, revision, transaction.now)
    }
    return revision
  }

  #withdraw(transaction: Transaction, id: IdColumn): void {
    const job = this.#jobs.current(id, transaction.now)
    if (job !== undefined) this.#jobs.withdraw(job)
  }

  /** Ends the delivery; `false` if it no longer has the task, and then nothing is done. */
  #endTask(transaction: Transaction, token: Token, task: Exclude<TaskEnd, { readonly kind: "withdraw" }>): boolean {
    const row = this.#jobs.held(token)
    if (row === undefined) return false
    if (task.kind === "ack") {
      this.#jobs.acknowledge(row)
    } else {
      const at = task.delay === 0 ? 0 : Math.ceil(transaction.now + task.delay)
      this.#jobs.release(row, at)
      transaction.noteReady(row.queue, at)
    }
    return true
  }
}

/** A text that is not a revision of this transport matches no record. */
const revisionOf = (revision: string): number => (REVISION.test(revision) ? Number(revision) : NO_REVISION)

const endedBy = (task: TaskEnd): Token | undefined => {
  if (task.kind === "withdraw") return undefined
  if (task.kind === "hand-back" && !(task.delay >= 0 && task.delay < Number.MAX_SAFE_INTEGER / 2)) {
    throw new TransportError("invalid", `a delay must be milliseconds from now, not ${task.delay}`)
  }
  return readToken(task.token)
}
