/**
 * One connection of a driver, with the calls that cases make. Each has a deadline, and fails with the name of what it
 * waited for.
 */
import type {
  Commit,
  CommitRecord,
  Committed,
  Delivery,
  Driver,
  Interest,
  News,
  Posting,
  Receipt,
  Taken,
  TakeRequest,
} from "../../../runtime/transport/driver.ts"
import type { Index, Known } from "../../../runtime/transport/known.ts"
import type { FoundJobs, Query, QueueDepth } from "../../../runtime/transport/optional.ts"
import type { Entry, Revision, Store, StoreOperation } from "../../../runtime/transport/store.ts"
import { check, equal, GaveUp } from "../check.ts"
import { describe, present } from "../peer.ts"
import { type Connected, sleep } from "../stage.ts"
import type { DriverContext } from "./context.ts"
import { idOf, idsOf, text } from "./task.ts"

type Rest = Omit<Commit, "id" | "task">
type Request = Partial<TakeRequest> & { readonly signal?: AbortSignal }

export class DriverPeer implements Connected<Driver> {
  readonly #context: DriverContext
  #driver: Driver | undefined

  constructor(context: DriverContext) {
    this.#context = context
  }

  use(driver: Driver): void {
    this.#driver = driver
  }

  get driver(): Driver {
    return present(this.#driver, "a connection")
  }

  get store(): Store {
    return this.driver.store
  }

  async close(): Promise<void> {
    if (this.#driver !== undefined) await this.#context.within("close", this.#driver.close())
  }

  // ── Tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  async receipts(postings: ReadonlyArray<Posting>): Promise<ReadonlyArray<Receipt>> {
    const receipts = await this.#context.within(`receipts for ${postings.length} tasks`, this.driver.publish(postings))
    equal(receipts.length, postings.length, "number of receipts")
    return receipts
  }

  /** Publishes tasks, and fails unless all of them are stored. */
  async publish(...postings: ReadonlyArray<Posting>): Promise<void> {
    const receipts = await this.receipts(postings)
    receipts.forEach((receipt, at) => {
      check(receipt.status === "stored", `task ${at} must be stored, it was ${describe(receipt)}`)
    })
  }

  /** Calls `take` once: by default for one task of one queue. */
  async ask(queues: string | ReadonlyArray<string>, request: Request = {}): Promise<Taken> {
    const { signal = never, ...rest } = request
    const full = {
      queues: typeof queues === "string" ? [queues] : queues,
      max: 1,
      wait: 0,
      rotate: false,
      ...rest,
    }
    const taken = await this.#context.within(
      `a take that waits ${full.wait} ms`,
      this.driver.take(full, signal),
      full.wait + 5_000,
    )
    check(taken.deliveries.length <= full.max, `a take of ${full.max} tasks brought ${taken.deliveries.length}`)
    return taken
  }

  /** The deliveries that come within `wait`. A driver that does not wait by itself is asked repeatedly. */
  async take(queues: string | ReadonlyArray<string>, request: Request = {}): Promise<ReadonlyArray<Delivery>> {
    if (this.driver.capabilities.waits) return (await this.ask(queues, request)).deliveries
    const end = performance.now() + (request.wait ?? 0)
    for (let pause = 2; ; pause = Math.min(2 * pause, 40)) {
      const { deliveries, next = pause } = await this.ask(queues, { ...request, wait: 0 })
      const left = end - performance.now()
      if (deliveries.length > 0 || left <= 0 || request.signal?.aborted) return deliveries
      await sleep(Math.max(Math.min(pause, left, next), 1))
    }
  }

  /** The next task of a queue. Fails if none comes in time. */
  async one(queue: string, wait = 5_000): Promise<Delivery> {
    const [delivery] = await this.all(queue, 1, wait)
    return present(delivery, "a delivery")
  }

  /** The next `count` tasks of a queue, in one or several takes. Fails if fewer come in time. */
  async all(queues: string | ReadonlyArray<string>, count: number, wait = 5_000): Promise<ReadonlyArray<Delivery>> {
    const deliveries: Array<Delivery> = []
    const end = Date.now() + wait
    while (deliveries.length < count) {
      const left = end - Date.now()
      if (left <= 0) throw new GaveUp(`${count} tasks must come within ${wait} ms, ${deliveries.length} came`)
      deliveries.push(...(await this.take(queues, { max: Math.min(count - deliveries.length, 256), wait: left })))
    }
    return deliveries
  }

  /** Fails if a task comes from these queues within a while. */
  async none(queues: string | ReadonlyArray<string>, why: string, ms = this.#context.quiet): Promise<void> {
    const deliveries = await this.take(queues, { max: 10, wait: ms })
    equal(idsOf(deliveries), [], `tasks that come although ${why}`)
  }

  /** Whether a token still has its task. */
  async extend(...tokens: ReadonlyArray<string>): Promise<ReadonlyArray<boolean>> {
    return this.#context.within("an extension", this.driver.extend(tokens))
  }

  // ── Commits ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async commits(...commits: ReadonlyArray<Commit>): Promise<ReadonlyArray<Committed>> {
    const answers = await this.#context.within(`${commits.length} commits`, this.driver.commit(commits))
    equal(answers.length, commits.length, "number of answers to commits")
    return answers
  }

  async commit(commit: Commit): Promise<Committed> {
    return present((await this.commits(commit))[0], "an answer")
  }

  /** Commits, and fails unless it is done. Returns the revision of the record. */
  async committed(commit: Commit): Promise<Revision> {
    const answer = await this.commit(commit)
    check(answer.status === "committed", `the commit of ${commit.id} must be committed, it was ${describe(answer)}`)
    check(
      commit.record === undefined ? answer.revision === "" : answer.revision !== "",
      `a commit has a revision if it has a record, and only then: ${JSON.stringify(answer.revision)}`,
    )
    return answer.revision
  }

  /** Stores a record, and fails unless it is stored. */
  async put(id: string, record: CommitRecord): Promise<Revision> {
    return this.committed({ id, record })
  }

  /** Takes a task off its queue, with the other steps of the commit. Fails unless all is done. */
  async end(delivery: Delivery, rest: Rest = {}): Promise<Revision> {
    const { token } = delivery
    const answer = await this.commit({ id: idOf(delivery), ...rest, task: { kind: "ack", token } })
    check(
      answer.status === "committed" && !answer.gone,
      `the end of ${idOf(delivery)} must be committed and find its task, it was ${describe(answer)}`,
    )
    return answer.revision
  }

  /** Gives a task back, and fails unless that is done. */
  async release(delivery: Delivery, delayed = 0, rest: Rest = {}): Promise<Revision> {
    const { token } = delivery
    return this.committed({ id: idOf(delivery), ...rest, task: { kind: "hand-back", token, delay: delayed } })
  }

  // ── What is known ─────────────────────────────────────────────────────────────────────────────────────────────────

  async reads(ids: ReadonlyArray<string>, what: "record" | "all" = "all"): Promise<ReadonlyArray<Known | undefined>> {
    const found = await this.#context.within(`reading ${ids.length} jobs`, this.driver.read(ids, what))
    equal(found.length, ids.length, "number of answers to a read")
    return found
  }

  async read(id: string, what: "record" | "all" = "all"): Promise<Known | undefined> {
    return (await this.reads([id], what))[0]
  }

  /** What `read` knows about a job. Fails if it is nothing. */
  async known(id: string): Promise<Known> {
    return present(await this.read(id), `something known of ${id}`)
  }

  /** The text in the stored record of a job. */
  async says(id: string): Promise<string | undefined> {
    return text((await this.read(id, "record"))?.record)
  }

  async query(query: Query): Promise<FoundJobs> {
    return this.#context.within("a page", present(this.driver.query, "query").call(this.driver, query))
  }

  async count(state: Index["state"], queue?: string): Promise<number | undefined> {
    return this.#context.within("a count", present(this.driver.count, "count").call(this.driver, state, queue))
  }

  async depth(queue: string): Promise<QueueDepth | undefined> {
    const depths = await this.#context.within("depths", present(this.driver.queues, "queues").call(this.driver))
    return depths.find((each) => each.queue === queue)
  }

  async waiting(
    what: { readonly queue: string } | { readonly expiredBy: number },
    max = 10,
  ): Promise<ReadonlyArray<string>> {
    return this.#context.within("what waits", present(this.driver.waiting, "waiting").call(this.driver, what, max))
  }

  /** Collects all news from now on. */
  async listen(interest: Interest, signal: AbortSignal = never): Promise<ReadonlyArray<News>> {
    const heard: Array<News> = []
    await this.#context.within(
      "listening",
      this.driver.listen(interest, (news) => heard.push(news), signal),
    )
    return heard
  }

  // ── Store ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  async write(...operations: ReadonlyArray<StoreOperation>): Promise<ReadonlyArray<Revision> | "conflict"> {
    return this.#context.within("a write to the store", this.store.write(operations))
  }

  /** Writes to the store, and fails unless all is written. */
  async written(...operations: ReadonlyArray<StoreOperation>): Promise<ReadonlyArray<Revision>> {
    const answer = await this.write(...operations)
    check(answer !== "conflict", `${operations.length} operations must be written, they were a conflict`)
    equal(answer.length, operations.length, "number of revisions that a write answers")
    return answer
  }

  async get(key: string): Promise<Entry | undefined> {
    const found = await this.#context.within(`the value of ${key.slice(0, 40)}`, this.store.get([key]))
    equal(found.length, 1, "number of answers to one key")
    return found[0]
  }

  async list(range: Partial<Parameters<Store["list"]>[0]> = {}): Promise<ReadonlyArray<Entry>> {
    return this.#context.within("a list", this.store.list({ prefix: "", limit: 100, ...range }))
  }
}

const never = new AbortController().signal
