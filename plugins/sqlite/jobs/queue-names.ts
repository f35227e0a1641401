/** Names of queues as small integers, so that indexes stay small. A name that was given a number keeps it for ever. */
import type { Database } from "../database/database.ts"
import { int, text } from "../database/row.ts"

/** Names that were used lately; more than this are looked up again. */
const CACHED = 10_000

export class QueueNames {
  readonly #ns: number
  readonly #select
  readonly #insert
  readonly #selectName
  readonly #selectAll
  readonly #ids = new Map<string, number>()
  readonly #names = new Map<number, string>()

  constructor(database: Database, ns: number) {
    this.#ns = ns
    this.#select = database.prepare("SELECT id FROM callboard_queue WHERE ns = ? AND name = ?")
    this.#insert = database.prepare("INSERT INTO callboard_queue (ns, name) VALUES (?, ?) RETURNING id")
    this.#selectName = database.prepare("SELECT name FROM callboard_queue WHERE id = ?")
    this.#selectAll = database.prepare("SELECT id, name FROM callboard_queue WHERE ns = ? ORDER BY name")
  }

  /** Number of a queue that exists. */
  find(name: string): number | undefined {
    const known = this.#ids.get(name)
    if (known !== undefined) return known
    const row = this.#select.get(this.#ns, name)
    return row && this.#keep(int(row, "id"), name)
  }

  /** Number of a queue, which comes into being by this. Inside a transaction only. */
  idOf(name: string): number {
    return this.find(name) ?? this.#keep(int(this.#insert.get(this.#ns, name) ?? {}, "id"), name)
  }

  nameOf(id: number): string {
    const known = this.#names.get(id)
    if (known !== undefined) return known
    const name = text(this.#selectName.get(id) ?? {}, "name")
    this.#keep(id, name)
    return name
  }

  all(): ReadonlyArray<{ readonly id: number; readonly name: string }> {
    return this.#selectAll.all(this.#ns).map((row) => ({ id: int(row, "id"), name: text(row, "name") }))
  }

  /** After a transaction that was taken back: the numbers it gave out are void. */
  forget(): void {
    this.#ids.clear()
    this.#names.clear()
  }

  #keep(id: number, name: string): number {
    if (this.#ids.size >= CACHED) this.forget()
    this.#ids.set(name, id)
    this.#names.set(id, name)
    return id
  }
}
