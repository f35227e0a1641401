/**
 * Commits in batches, step by step: records by compare-and-set, then postings, then the tasks. The acknowledgement of a
 * task is sent as soon as its own record is stored. When a process ends between two steps, the next delivery of the
 * task finds the record and does the rest, or maintenance does.
 */
import type { Commit, Committed } from "../../../runtime/transport/driver.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import { asTransportError } from "../connection/answers.ts"
import type { NatsLink } from "../connection/link.ts"
import type { ServerClock } from "../connection/server-clock.ts"
import { ACK, Acks, nak } from "../queue/acks.ts"
import type { Token } from "../queue/delivery.ts"
import type { DeliveryTracker } from "../queue/lease.ts"
import { MAX_MS, type TaskPublisher } from "../queue/publish.ts"
import type { Names } from "../streams/names.ts"
import type { Outgoing, Published, StreamPublisher } from "../streams/publisher.ts"
import type { StreamReader } from "../streams/reader.ts"
import type { PreparedRecord, Records } from "./records.ts"

/** One commit, and what has become of it so far. */
interface Item {
  readonly commit: Commit
  readonly record: PreparedRecord | undefined
  /** Its postings as messages. */
  readonly outgoing: ReadonlyArray<Outgoing>
  /** The delivery that is ended or released. */
  readonly token: Token | undefined
  /** Sequence of the stored record; 0 if none was stored. */
  seq: number
  /** Sequence of the record's entry; 0 if it has none. */
  entry: number
  /** Sequence, in the queue stream, of the first message that carries one of its postings. */
  posted?: number
  /** Whether its task was acknowledged, released or found gone. */
  done: boolean
  answer: Committed | undefined
}

export interface CommitterParts {
  readonly link: NatsLink
  readonly names: Names
  readonly records: Records
  readonly publisher: StreamPublisher
  readonly taskPublisher: TaskPublisher
  readonly tracker: DeliveryTracker
  readonly clock: ServerClock
  /** Reads the queue stream. */
  readonly tasks: StreamReader
}

const NONE: ReadonlyArray<never> = []

const isOpen = ({ answer }: Item): boolean => answer === undefined

export class Committer {
  readonly #parts: CommitterParts

  constructor(parts: CommitterParts) {
    this.#parts = parts
  }

  async commit(commits: ReadonlyArray<Commit>): Promise<ReadonlyArray<Committed>> {
    if (!this.#parts.link.isReady) await this.#parts.link.ready()
    await this.#parts.clock.certain()
    const acks = new Acks(this.#parts.link)
    const items = commits.map((commit) => this.#prepare(commit))
    const open = items.filter(isOpen)
    const listed = open.filter(({ record }) => record?.entry)
    if (listed.length === 0) await this.#writeRecords(open, acks)
    else {
      // Records without an entry do not wait for the entries of the others.
      const plain = open.filter(({ record }) => !record?.entry)
      await Promise.all([
        this.#writeRecords(plain, acks),
        this.#writeEntries(listed).then(() => this.#writeRecords(listed, acks)),
      ])
    }
    if (open.some(({ outgoing }) => outgoing.length > 0)) await this.#publishPostings(open)
    if (open.some(({ commit: { task } }) => task?.kind === "withdraw")) await this.#withdraw(open)
    await this.#endTasks(open, acks)
    return items.map((item) => item.answer ?? { status: "committed", revision: this.#revision(item) })
  }

  /** Checks a commit before the first step, so that it does not fail halfway for a reason known before. */
  #prepare(commit: Commit): Item {
    const { records, taskPublisher, tracker } = this.#parts
    const { id, post = NONE, task } = commit
    let record: PreparedRecord | undefined
    let outgoing: ReadonlyArray<Outgoing> = NONE
    let answer: Committed | undefined
    try {
      if (post.length > 0) outgoing = post.map((posting) => taskPublisher.prepare(posting))
      if (task?.kind === "hand-back" && !(task.delay <= MAX_MS))
        throw new TransportError("unsupported", `${id}: this transport keeps tasks for at most a hundred years`)
      if (commit.record !== undefined) {
        record = records.prepare(id, commit.record)
        if (record === undefined) answer = { status: "conflict" }
      }
    } catch (error) {
      answer = { status: "failed", error: asTransportError(error) }
    }
    const token = task === undefined || task.kind === "withdraw" ? undefined : tracker.read(task.token)
    return {
      commit,
      record,
      outgoing,
      token,
      seq: 0,
      entry: record?.sameEntry ?? 0,
      done: false,
      answer,
    }
  }

  async #writeEntries(items: ReadonlyArray<Item>): Promise<void> {
    const entries = items.flatMap(({ record }) => record?.entry ?? [])
    await this.#try(items, async () => {
      const results = await this.#parts.publisher.publish(entries)
      for (const [at, item] of items.entries()) {
        const result = results[at]
        if (result?.status === "failed") this.#fail(item, result.error)
        else if (result?.status === "stored") item.entry = result.seq
      }
    })
  }

  async #writeRecords(items: ReadonlyArray<Item>, acks: Acks): Promise<void> {
    const { tracker, records, publisher } = this.#parts
    const open = items.filter((item) => item.record !== undefined && isOpen(item))
    const messages = open.flatMap(({ record, entry }) => (record === undefined ? [] : records.message(record, entry)))
    const stored = (at: number, result: Published): void => {
      const item = open[at]
      if (item?.record === undefined) return
      if (result.status === "failed") this.#fail(item, result.error)
      else if (result.status === "conflict") item.answer = { status: "conflict" }
      else {
        item.seq = result.seq
        // The commit has no postings, so that its task is acknowledged while the other records are on their way.
        if (item.outgoing.length === 0 && item.token && tracker.isOwn(item.token))
          this.#acknowledge(item, item.token, acks)
        // The commit does not wait for this: readers skip an entry that does not fit its record.
        if (item.record.obsoleteEntry !== undefined)
          void records.remove(item.record.obsoleteEntry).catch(() => undefined)
      }
    }
    await this.#try(open, () => publisher.publish(messages, stored))
  }

  async #publishPostings(items: ReadonlyArray<Item>): Promise<void> {
    const open = items.filter((item) => item.outgoing.length > 0 && isOpen(item))
    if (open.length === 0) return
    const owners = open.flatMap((item) => item.outgoing.map(() => item))
    const postings = open.flatMap(({ commit }) => commit.post ?? NONE)
    const outgoing = open.flatMap((item) => item.outgoing)
    await this.#try(open, async () => {
      const results = await this.#parts.taskPublisher.send(postings, outgoing)
      for (const [at, result] of results.entries()) {
        const owner = owners[at]
        if (owner === undefined) continue
        if (result.status === "failed") this.#fail(owner, result.error)
        else if (result.status === "stored") owner.posted = Math.min(owner.posted ?? result.seq, result.seq)
      }
    })
  }

  async #withdraw(items: ReadonlyArray<Item>): Promise<void> {
    const { tasks, names } = this.#parts
    const open = items.filter((item) => item.commit.task?.kind === "withdraw" && isOpen(item))
    // What the commit has posted itself stays.
    const one = ({ commit, posted }: Item) => tasks.purge(names.tasksOf(commit.id), posted)
    await Promise.all(open.map((item) => this.#try([item], () => one(item))))
  }

  /** Ends or releases the tasks that are still open. */
  async #endTasks(items: ReadonlyArray<Item>, acks: Acks): Promise<void> {
    const left = items.filter((item) => !item.done && isOpen(item) && item.commit.task !== undefined)
    if (left.length > 0) await Promise.all(left.map((item) => this.#try([item], () => this.#endTask(item, acks))))
    // A job whose record is stored has ended, acknowledged or not, so that its commit does not wait for the server to
    // handle the acknowledgement.
    const waits = items.some(({ seq, done }) => done && seq === 0)
    const handled = acks.finish(!waits).then((unanswered) => this.#removeUnacknowledged(items, unanswered))
    if (waits) await handled
  }

  async #endTask(item: Item, acks: Acks): Promise<void> {
    const { token, commit } = item
    if (commit.task?.kind === "withdraw") return
    // A delivery that another transport received may have been ended by that one.
    const isExternal = token !== undefined && !this.#parts.tracker.isOwn(token)
    if (token === undefined || (isExternal && (await this.#parts.tasks.at(token.seq)) === undefined)) this.#gone(item)
    else this.#acknowledge(item, token, acks)
  }

  /** Does a step for these commits. When it fails as a whole, each of them that is still open fails. */
  async #try(items: ReadonlyArray<Item>, step: () => Promise<unknown>): Promise<void> {
    try {
      await step()
    } catch (error) {
      for (const item of items) if (isOpen(item)) this.#fail(item, asTransportError(error))
    }
  }

  /**
   * Acknowledges or releases a task. The server accepts an acknowledgement from every delivery, also when another one
   * has the task by now; so none is sent for a lease that may have ended: the task comes again, and its record is found
   * then.
   */
  #acknowledge(item: Item, token: Token, acks: Acks): void {
    const { tracker, clock } = this.#parts
    const { task } = item.commit
    if (task === undefined || task.kind === "withdraw") return
    item.done = true
    if (token.until <= clock.now()) {
      this.#gone(item)
      return
    }
    tracker.end(token)
    try {
      acks.add(token, task.kind === "ack" ? ACK : nak(task.delay))
    } catch (error) {
      this.#fail(item, asTransportError(error))
    }
  }

  /**
   * Removes the messages of ended tasks whose consumer was deleted. In general a lost acknowledgement is no failure:
   * the task comes again, its record is found, and it is acknowledged then. But the acknowledgement to a deleted
   * consumer is lost for certain, and the consumer that replaces it would deliver the ended task.
   */
  async #removeUnacknowledged(
    items: ReadonlyArray<Item>,
    unanswered: ReadonlyMap<string, TransportError>,
  ): Promise<void> {
    if (unanswered.size === 0) return
    const leftovers = items.flatMap(({ done, answer, token, commit: { task } }) => {
      const acknowledged = done && answer === undefined && token !== undefined && task?.kind === "ack"
      return acknowledged && unanswered.get(token.consumer)?.outcome === "none" ? token.seq : []
    })
    await this.#parts.tasks.remove(leftovers).catch(() => undefined)
  }

  #revision({ record, seq, entry }: Item): string {
    return record === undefined || seq === 0 ? "" : this.#parts.records.revision(record, seq, entry)
  }

  #gone(item: Item): void {
    item.answer = { status: "committed", revision: this.#revision(item), gone: true }
  }

  #fail(item: Item, error: TransportError): void {
    const revision = this.#revision(item)
    item.answer = { status: "failed", error, ...(revision === "" ? {} : { revision }) }
  }
}
