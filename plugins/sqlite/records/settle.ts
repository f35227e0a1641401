/**
 * Ends deliveries: record, follow-ups and acknowledgement in one transaction, refused as a whole when somebody else has
 * the job. A first delivery that nobody interfered with costs two updates.
 */
import { isTerminal } from "../../../runtime/protocol/state.ts"
import { type Posting, type Settled, type Settlement, TransportError } from "../../../runtime/transport/mod.ts"
import type { Database } from "../database/database.ts"
import { type PostingColumns, type RecordColumns, recordColumns, recordLinks } from "../jobs/column.ts"
import type { JobRow, JobTable } from "../jobs/job-table.ts"
import type { QueueNames } from "../jobs/name.ts"
import { nthOf, readToken, type Token } from "../jobs/number.ts"
import type { Publisher } from "../queue/publish.ts"
import type { Transaction } from "../writing/transaction.ts"
import { judge } from "./judge.ts"

/** A settlement whose parts have been checked and encoded. */
export interface PreparedSettlement {
  readonly token: Token
  readonly record: RecordColumns | undefined
  readonly followUps: ReadonlyArray<PostingColumns>
  /** When the task is ready again; `undefined` takes it off the queue. */
  readonly delay: number | undefined
}

const NONE: ReadonlyArray<PostingColumns> = []

export class Settler {
  readonly #ns: number
  readonly #jobs: JobTable
  readonly #names: QueueNames
  readonly #publisher: Publisher
  readonly #end
  readonly #endLoad

  constructor(database: Database, ns: number, jobs: JobTable, names: QueueNames, publisher: Publisher) {
    this.#ns = ns
    this.#jobs = jobs
    this.#names = names
    this.#publisher = publisher
    // Everything that would need a second look is in the condition.
    this.#end = database.prepare(
      `UPDATE callboard_job SET at = NULL, state = ?, rev = ?, over = ?, keeps = ?
       WHERE seq = ? AND fence = ? AND at IS NOT NULL AND of IS NULL AND state IS NULL AND expires IS NULL
         AND ns = ? AND id = ? AND queue = ? AND task = ?`,
    )
    this.#endLoad = database.prepare("UPDATE callboard_load SET envelope = ?, record = ? WHERE seq = ?")
  }

  /** What can fail, before the lock is taken. Fails with `invalid`, `unsupported` or `too-large`. */
  prepare({ token, record, followUps, then }: Settlement): PreparedSettlement {
    const read = tokenOf(token)
    const { fenceText: fence } = read
    return {
      token: read,
      record: record && recordColumns(record.fence === fence ? record : { ...record, fence }, Date.now()),
      followUps: followUps?.map((posting: Posting) => this.#publisher.prepare(posting)) ?? NONE,
      delay: then.kind === "ack" ? undefined : Math.max(0, Math.ceil(then.delay)),
    }
  }

  settle(transaction: Transaction, settlement: PreparedSettlement): Settled {
    const { record } = settlement
    if (record !== undefined && settlement.delay === undefined && this.#endAtOnce(transaction, settlement, record)) {
      if (transaction.tells) transaction.records.push(record.record)
      for (const posting of settlement.followUps) this.#publisher.post(transaction, posting)
      return { status: "settled" }
    }
    return this.#settleCarefully(transaction, settlement)
  }

  /** The usual case: nothing is stored about the job, and this delivery has its task. */
  #endAtOnce(transaction: Transaction, { token }: PreparedSettlement, columns: RecordColumns): boolean {
    const { record, state, over, id, frame, json, grave } = columns
    if (grave === 1 || !isTerminal(record.state)) return false
    const queue = this.#names.find(record.queue)
    if (queue === undefined) return false
    const keeps = frame === null ? 0 : 1
    const revision = transaction.next()
    const { seq, fence } = token
    const { changes } = this.#end.run(state, revision, over, keeps, seq, fence, this.#ns, id, queue, record.task)
    if (changes === 0) return false
    this.#endLoad.run(frame, json, seq)
    return true
  }

  #settleCarefully(transaction: Transaction, { token, record, followUps, delay }: PreparedSettlement): Settled {
    const task = this.#jobs.held(token)
    if (task === undefined && this.#hasNewer(token)) return { status: "superseded" }
    let stored = false
    let job = task && this.#jobOf(task)
    if (record !== undefined) {
      const own = job !== undefined && this.#jobs.idOf(job) === record.record.id
      // What cannot be decoded is stored under an id of its own.
      const target = own ? job : this.#jobs.current(record.id, transaction.now)
      const before = target && this.#jobs.record(target)
      const verdict = judge(before, record.record, token.fenceText, own ? task?.nth : undefined)
      if (verdict === "superseded") return { status: "superseded" }
      if (verdict === "write") this.#store(transaction, target, record)
      stored = own
      if (own) job = target
    }
    if (task !== undefined) this.#endTask(transaction, task, job, delay, stored ? record : undefined)
    for (const posting of followUps) this.#publisher.post(transaction, posting)
    return { status: task === undefined ? "gone" : "settled" }
  }

  /** Whether a later delivery has the task of this one. */
  #hasNewer({ seq, fence }: Token): boolean {
    const row = this.#jobs.bySeq(seq)
    return row !== undefined && row.at !== null && row.fence !== null && row.fence > fence
  }

  #jobOf(task: JobRow): JobRow | undefined {
    return task.of === null ? task : this.#jobs.bySeq(task.of)
  }

  #store(transaction: Transaction, target: JobRow | undefined, columns: RecordColumns): void {
    const { record } = columns
    if (target !== undefined) {
      this.#jobs.putRecord(target, columns, transaction.next())
    } else {
      // Its task was in a queue once, so this publish key must never be used again.
      const nth = nthOf(record) ?? 0
      this.#jobs.insertRecord(columns, recordLinks(record), transaction.next(), transaction.next(), nth)
    }
    if (transaction.tells) transaction.records.push(record)
  }

  #endTask(
    transaction: Transaction,
    task: JobRow,
    job: JobRow | undefined,
    delay: number | undefined,
    written: RecordColumns | undefined,
  ): void {
    if (delay !== undefined) {
      const at = delay === 0 ? 0 : transaction.now + delay
      this.#jobs.release(task, at)
      transaction.put(task.queue, at)
      return
    }
    const stored = written !== undefined || (job !== undefined && job.rev !== null)
    const keeps = written === undefined ? job?.keeps === 1 : written.frame !== null
    this.#jobs.acknowledge(task, stored, keeps, written?.frame ?? null)
  }
}

export const tokenOf = (token: string): Token => {
  const read = readToken(token)
  if (read === undefined)
    throw new TransportError("invalid", `not a token of this transport: ${JSON.stringify(token.slice(0, 60))}`)
  return read
}
