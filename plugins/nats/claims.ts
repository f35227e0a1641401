/**
 * Claims and reports: what is written while a delivery runs. A claim is one compare-and-set against what is stored; it
 * stays current until its outcome replaces it.
 */
import { claimed, isClaimOf, type JobRecord, recordOfPosting, unclaimed } from "../../runtime/protocol/record.ts"
import { type Claim, type Claimed, type Report, TransportError } from "../../runtime/transport/mod.ts"
import { asTransportError } from "./connection/errors.ts"
import { judgeClaim, judgeRecord } from "./fencing.ts"
import { aged, type Journal, type Kept } from "./journal.ts"
import type { Token } from "./queue/delivery.ts"
import type { Ledger } from "./queue/ledger.ts"
import type { Runs } from "./runs.ts"

/** A job is written by two at a time at most: who claims it and who decides from outside. */
const ROUNDS = 5

interface Claiming {
  readonly claim: Claim
  readonly token: Token
  answer: Claimed | undefined
}

export class Claims {
  readonly #journal: Journal
  readonly #runs: Runs
  readonly #ledger: Ledger

  constructor(parts: { journal: Journal; runs: Runs; ledger: Ledger }) {
    this.#journal = parts.journal
    this.#runs = parts.runs
    this.#ledger = parts.ledger
  }

  async claim(claims: ReadonlyArray<Claim>): Promise<ReadonlyArray<Claimed>> {
    const answers: Array<Claimed> = claims.map(() => ({ status: "superseded" }))
    const items = claims.flatMap((claim, index): Array<Claiming & { readonly index: number }> => {
      const token = this.#ledger.read(claim.token)
      return token === undefined ? [] : [{ claim, token, answer: undefined, index }]
    })
    for (let round = 0, open = items; open.length > 0 && round < ROUNDS; round++) {
      await this.#round(open)
      open = open.filter(({ answer }) => answer === undefined)
    }
    for (const { index, answer, claim } of items) answers[index] = answer ?? contended(claim.id)
    return answers
  }

  async report(reports: ReadonlyArray<Report>): Promise<void> {
    const known = reports.flatMap(({ token, record }) => {
      const read = this.#ledger.read(token)
      return read === undefined || this.#ledger.wasSettled(read) ? [] : [{ fence: read.fence, record }]
    })
    if (known.length === 0) return
    const stored = await this.#journal.read(known.map(({ record }) => record.id))
    // Of several reports about one job the last one stands.
    const latest = new Map<string, JobRecord>()
    for (const { fence, record } of known) {
      const verdict = judgeRecord(stored.get(record.id)?.record, record, fence)
      if (verdict === "write") latest.set(record.id, { ...record, fence })
    }
    await this.#runs.write([...latest.values()])
  }

  /** Reads, judges and writes each claim that is open; who loses a race stays open. */
  async #round(items: ReadonlyArray<Claiming>): Promise<void> {
    const stored = await this.#journal.read(items.map(({ claim }) => claim.id))
    const writing: Array<{ item: Claiming; before: Kept | undefined }> = []
    const messages = []
    for (const item of items) {
      const { claim, token } = item
      const before = stored.get(claim.id)
      const verdict = judgeClaim(before?.record, claim.posting, token.fence)
      // What was handed back is not this delivery's any more, whatever the record says.
      if (verdict === "superseded" || (verdict === "claim" && this.#ledger.wasSettled(token))) {
        item.answer = { status: "superseded" }
        this.#ledger.settle(token)
      } else if (verdict === "finished" && before !== undefined) {
        item.answer = { status: "finished", record: aged(before.record, Date.now()) }
      } else if (before !== undefined && isClaimOf(before.record, token.fence)) {
        this.#note(token, before)
        item.answer = { status: "claimed", record: unclaimed(before.record) }
      } else {
        try {
          const record = begun(claim, token, before?.record)
          messages.push(this.#journal.message(this.#journal.prepare(record), before?.seq ?? 0))
          writing.push({ item, before })
        } catch (error) {
          item.answer = { status: "failed", error: asTransportError(error) }
        }
      }
    }
    const replaced: Array<Kept> = []
    const results = await this.#journal.write(messages)
    for (const [at, { item, before }] of writing.entries()) {
      const result = results[at]
      if (result?.status === "failed") item.answer = { status: "failed", error: result.error }
      if (result?.status !== "stored") continue
      const subject = messages[at]?.subject ?? ""
      this.#note(item.token, { seq: result.seq, subject })
      if (before !== undefined && before.subject !== subject) replaced.push(before)
      item.answer = { status: "claimed", ...(before === undefined ? {} : { record: before.record }) }
    }
    await this.#journal.forget(replaced)
  }

  /** Remembers which record this delivery settles against. */
  #note(token: Token, { seq, subject }: Pick<Kept, "seq" | "subject">): void {
    if (!this.#ledger.wasSettled(token)) this.#ledger.note(token).claim = { seq, subject }
  }
}

/** The record of a job that a delivery begins. */
const begun = (claim: Claim, { fence }: Token, before: JobRecord | undefined): JobRecord =>
  claimed(before ?? derived(claim), { fence, worker: claim.worker, at: claim.at })

const derived = ({ posting, at, id }: Claim): JobRecord => {
  const record = recordOfPosting(posting, at)
  if (record._tag === "Success") return record.success
  throw new TransportError("invalid", `${id}: ${record.failure.message}`)
}

const contended = (id: string): Claimed => ({
  status: "failed",
  error: new TransportError("unavailable", `${id}: too many write about it at the same time`),
})
