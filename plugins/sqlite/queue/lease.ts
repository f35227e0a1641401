/** Extends leases, by token alone: from any thread and any process that opened the same file. */
import type { Database } from "../database/database.ts"
import { readToken } from "../jobs/number.ts"
import type { Transaction } from "../writing/transaction.ts"

export class Leases {
  readonly #lease: number
  readonly #extend
  readonly #extendOlder

  constructor(database: Database, lease: number) {
    this.#lease = lease
    this.#extend = database.prepare("UPDATE callboard_job SET at = ? WHERE seq = ? AND fence = ? AND at > ?")
    this.#extendOlder = database.prepare("UPDATE callboard_job SET at = ? WHERE of = ? AND fence = ? AND at > ?")
  }

  /** Whether the delivery still had its lease, which now lasts a full length from now. */
  extend(transaction: Transaction, token: string): boolean {
    const read = readToken(token)
    if (read === undefined) return false
    const { now } = transaction
    const until = now + this.#lease
    if (this.#extend.run(until, read.seq, read.fence, now).changes > 0) return true
    // A newer posting of the job has moved this one into a row of its own.
    return this.#extendOlder.run(until, read.seq, read.fence, now).changes > 0
  }
}
