/** Queue names as small integers, so that indexes stay small. A queue keeps its number for ever. */
import { type Database, int, text } from "../database/database.ts"

/** Most names in the cache, which is emptied when it is full. */
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

  /** Number of a queue; `undefined` if the queue does not exist. */
  find(name: string): number | undefined {
    const known = this.#ids.get(name)
    if (known !== undefined) return known
    const row = this.#select.get(this.#ns, name)
    return row && this.#keep(int(row, "id"), name)
  }

  /** Number of a queue, which is created if it does not exist. Inside a transaction only. */
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

  /** Empties the cache. To be called after a rollback: numbers that the transaction gave out are void. */
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
