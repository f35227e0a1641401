/** Makes ready, before their time, what was put off: by the token of the delivery that did so. */
import type { Database } from "./database.ts"
import { readToken } from "./number.ts"
import { int } from "./row.ts"
import type { Transaction } from "./transaction.ts"

export class Hastener {
  readonly #hasten
  readonly #hastenOlder

  constructor(database: Database) {
    const hasten = (row: string) =>
      database.prepare(
        `UPDATE callboard_job SET at = 0, fence = NULL WHERE ${row} = ? AND fence = ? AND at > 0 RETURNING queue`,
      )
    this.#hasten = hasten("seq")
    this.#hastenOlder = hasten("of")
  }

  hasten(transaction: Transaction, token: string): void {
    const read = readToken(token)
    if (read === undefined) return
    // A newer posting of the job may have moved this one into a row of its own.
    const row = this.#hasten.get(read.seq, -read.fence) ?? this.#hastenOlder.get(read.seq, -read.fence)
    if (row !== undefined) transaction.put(int(row, "queue"), 0)
  }
}
