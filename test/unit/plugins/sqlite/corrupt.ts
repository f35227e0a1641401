/** Puts bytes that are no message where a task of a queue should be, as a damaged file would have them. */
import { DatabaseSync } from "node:sqlite"

export const corrupt = (path: string, queue: string, bytes: Uint8Array, namespace: string): void => {
  const database = new DatabaseSync(path, { timeout: 5_000 })
  try {
    const one = (sql: string, ...values: ReadonlyArray<string | number>): number => {
      const value = Object.values(database.prepare(sql).get(...values) ?? {})[0]
      if (typeof value !== "number") throw new Error(`nothing from ${sql}`)
      return value
    }
    database.exec("BEGIN IMMEDIATE")
    const ns = one("SELECT id FROM callboard_namespace WHERE name = ?", namespace)
    database.prepare("INSERT OR IGNORE INTO callboard_queue (ns, name) VALUES (?, ?)").run(ns, queue)
    const queueId = one("SELECT id FROM callboard_queue WHERE ns = ? AND name = ?", ns, queue)
    const seq = one("UPDATE callboard_counter SET last = last + 1 RETURNING last")
    const place = 6 * 2 ** 48 + seq
    database
      .prepare(
        `INSERT INTO callboard_job (seq, ns, id, key, queue, task, submitted, posted, place, at, bytes)
         VALUES (?, ?, ?, '/1/0', ?, '', 0, 0, ?, 0, ?)`,
      )
      .run(seq, ns, `damaged-${seq}`, queueId, place, bytes.length)
    database.prepare("INSERT INTO callboard_load (seq, frame) VALUES (?, ?)").run(seq, bytes)
    database.exec("COMMIT")
  } finally {
    database.close()
  }
}
