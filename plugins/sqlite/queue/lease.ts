/** Extends leases. The token is all it needs, so that any thread or process that opened the same file can do it. */
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
   * Gives the delivery a full lease from now; `false` if its task is gone or was taken by another delivery. A lease
   * that ended begins again as long as no other delivery has taken the task.
   */
  extend({ now }: Transaction, token: string): boolean {
    const read = readToken(token)
    return read !== undefined && this.#extend.run(now + this.#lease, read.seq, read.fence).changes > 0
  }
}
