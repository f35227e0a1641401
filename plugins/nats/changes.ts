/** Compare-and-set from outside a delivery: the record, then the waiting task out of the queue, then what follows. */
import { type Change, type Changed, TransportError } from "../../runtime/transport/mod.ts"
import { asTransportError } from "./connection/errors.ts"
import type { Journal, Kept } from "./journal.ts"
import type { Posted, Posts } from "./queue/posts.ts"
import { escapeToken, type Names } from "./streams/names.ts"
import type { Outgoing } from "./streams/publisher.ts"
import type { Reader } from "./streams/reader.ts"

interface Item {
  readonly change: Change
  readonly outgoing: Outgoing
  readonly posts: ReadonlyArray<Posted>
  readonly posting: ReadonlyArray<Outgoing>
  answer: Changed | undefined
}

export interface ChangerParts {
  readonly names: Names
  readonly journal: Journal
  readonly posts: Posts
  /** Of the queue stream. */
  readonly tasks: Reader
}

export class Changer {
  readonly #parts: ChangerParts

  constructor(parts: ChangerParts) {
    this.#parts = parts
  }

  async change(changes: ReadonlyArray<Change>): Promise<ReadonlyArray<Changed>> {
    const items = changes.map((change) => this.#begin(change))
    const isOpen = (item: Item | Changed): item is Item => "change" in item && item.answer === undefined
    await this.#write(items.filter(isOpen))
    await this.#withdraw(items.filter(isOpen))
    await this.#post(items.filter(isOpen))
    return items.map((item) => ("change" in item ? (item.answer ?? { status: "changed" }) : item))
  }

  #begin(change: Change): Item | Changed {
    const { journal, posts: all } = this.#parts
    try {
      const expect = change.expect === "" ? 0 : Number(change.expect)
      if (!(Number.isSafeInteger(expect) && expect >= 0) || (expect === 0 && change.expect !== "")) {
        return { status: "conflict" }
      }
      const posts = (change.post ?? []).map((posting) => ({ posting, recorded: posting.id === change.id }))
      return {
        change,
        outgoing: journal.message(journal.prepare(change.record), expect),
        posts,
        posting: posts.map((post) => all.prepare(post)),
        answer: undefined,
      }
    } catch (error) {
      return { status: "failed", error: asTransportError(error) }
    }
  }

  async #write(items: ReadonlyArray<Item>): Promise<void> {
    if (items.length === 0) return
    const { journal } = this.#parts
    // What the new record replaces must be known before, to be removed after.
    const stored = await journal.read(items.filter(({ change }) => change.expect !== "").map(({ change }) => change.id))
    const results = await journal.write(items.map(({ outgoing }) => outgoing))
    const replaced: Array<Kept> = []
    for (const [at, item] of items.entries()) {
      const result = results[at]
      if (result?.status === "failed") item.answer = { status: "failed", error: result.error }
      else if (result?.status !== "stored") item.answer = { status: "conflict" }
      else {
        const before = stored.get(item.change.id)
        if (before !== undefined && before.subject !== item.outgoing.subject) replaced.push(before)
      }
    }
    if (replaced.length > 0) await journal.forget(replaced)
  }

  async #withdraw(items: ReadonlyArray<Item>): Promise<void> {
    const { names, tasks } = this.#parts
    const ids = items.filter(({ change }) => change.withdraw).map(({ change }) => change.id)
    if (ids.length === 0) return
    const waiting = await tasks.last(
      ids.map((id) => names.tasksOf(escapeToken(id))),
      true,
    )
    await tasks.remove(waiting.map(({ seq }) => seq))
  }

  async #post(items: ReadonlyArray<Item>): Promise<void> {
    const posts = items.flatMap((item) => item.posts)
    if (posts.length === 0) return
    const owners = items.flatMap((item) => item.posts.map(() => item))
    const results = await this.#parts.posts.send(
      posts,
      items.flatMap((item) => item.posting),
    )
    for (const [at, result] of results.entries()) {
      const owner = owners[at]
      if (result.status !== "failed" || owner === undefined) continue
      // The record is stored: maintenance posts what is missing, if nobody does so before.
      const { reason, message } = result.error
      owner.answer = { status: "failed", error: new TransportError(reason, message, { outcome: "unknown" }) }
    }
  }
}
