/** What a run writes while it goes on: the claim before the handler starts, and reports. */
import { publishKey } from "../../../runtime/protocol/message.ts"
import { claimed, isClaimOf, isTakenEarly, recordOfPosting, unclaimed } from "../../../runtime/protocol/record.ts"
import { isTerminal } from "../../../runtime/protocol/state.ts"
import {
  type Claim,
  type Claimed,
  type JobRecord,
  type Report,
  TransportError,
} from "../../../runtime/transport/mod.ts"
import { type RecordColumns, recordColumns } from "../jobs/column.ts"
import { idToColumn } from "../jobs/id.ts"
import type { JobRow, JobTable } from "../jobs/job-table.ts"
import { nthOf, type Token } from "../jobs/number.ts"
import type { Transaction } from "../writing/transaction.ts"
import { judge, wentOn } from "./judge.ts"
import { tokenOf } from "./settle.ts"
import { isHeld } from "./view.ts"

export interface PreparedClaim {
  readonly token: Token
  readonly nth: number
  readonly claim: Claim
}

export interface PreparedReport {
  readonly token: Token
  readonly columns: RecordColumns
}

export class Claimer {
  readonly #jobs: JobTable
  readonly #lease: number

  constructor(jobs: JobTable, lease: number) {
    this.#jobs = jobs
    this.#lease = lease
  }

  /** Fails with `invalid`. */
  prepare(claim: Claim): PreparedClaim {
    const nth = nthOf(claim.posting)
    if (nth === undefined || claim.posting.id !== claim.id) {
      throw new TransportError("invalid", `${claim.id}: ${publishKey(claim.posting)} is no posting of this job`)
    }
    return { token: tokenOf(claim.token), nth, claim }
  }

  claim(transaction: Transaction, { token, nth, claim }: PreparedClaim): Claimed {
    const { id, run, worker, at } = claim
    const { fenceText: fence } = token
    const job = this.#jobs.current(idToColumn(id), transaction.now)
    const before = job && this.#jobs.record(job)
    if (before !== undefined) {
      const over = before.run > run || (before.run === run && (isTerminal(before.state) || before.tombstone === true))
      if (over || isTakenEarly(before, claim) || (before.run === run && wentOn(before, nth)))
        return { status: "finished", record: before }
      if (before.fence > fence) return { status: "superseded" }
    }
    const task = this.#jobs.held(token)
    if (job === undefined || task === undefined) return { status: "superseded" }
    // Its lease lapsed and nobody took the task over: so it is this delivery's again.
    if (!isHeld(task, transaction.now)) this.#jobs.hold(task, transaction.now + this.#lease)
    if (before !== undefined && isClaimOf(before, fence)) return { status: "claimed", record: unclaimed(before) }
    const base = before ?? derive(claim)
    const { keepMs: _keepMs, ...record } = claimed(base, { fence, worker, at })
    this.#jobs.putRecord(job, recordColumns(record, transaction.now), transaction.next())
    if (transaction.tells) transaction.records.push(record)
    return { status: "claimed", ...(before === undefined ? {} : { record: before }) }
  }

  /** Fails with `invalid` or `too-large`. */
  prepareReport({ token, record }: Report): PreparedReport {
    return { token: tokenOf(token), columns: recordColumns(record, Date.now()) }
  }

  report(transaction: Transaction, { token, columns }: PreparedReport): void {
    const task = this.#jobs.held(token)
    if (task === undefined || !isHeld(task, transaction.now)) return
    const job = this.#jobOf(task)
    if (job === undefined || this.#jobs.idOf(job) !== columns.record.id) return
    if (judge(this.#jobs.record(job), columns.record, token.fenceText, task.nth) !== "write") return
    this.#jobs.putReport(job, columns)
    if (transaction.tells) transaction.records.push(columns.record)
  }

  #jobOf(task: JobRow): JobRow | undefined {
    return task.of === null ? task : this.#jobs.bySeq(task.of)
  }
}

const derive = ({ id, posting, at }: Claim): JobRecord => {
  const derived = recordOfPosting(posting, at)
  if (derived._tag === "Success") return derived.success
  throw new TransportError("invalid", `${id}: ${derived.failure.message}`)
}
