/** Extends leases, by token alone: from any thread and any process that opened the same file. */
import type { Database } from "../database/database.ts"
import { readToken } from "../jobs/token.ts"
import type { Transaction } from "../writing/transaction.ts"

export class Leases {
  readonly #lease: number
  readonly #extend

  constructor(database: Database, lease: number) {
    this.#lease = lease
    this.#extend = database.prepare("UPDATE callboard_job SET at = ? WHERE seq = ? AND fence = ? AND at IS NOT NULL")
  }

  /**
   * Whether the delivery has its task, for a full lease from now. A lease that had ended begins anew as long as no other
   * delivery has taken the task over.
   */
  extend({ now }: Transaction, token: string): boolean {
    const read = readToken(token)
    return read !== undefined && this.#extend.run(now + this.#lease, read.seq, read.fence).changes > 0
  }
}
