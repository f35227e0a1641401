/** A job board over HTTP: the methods of {@link Board} that a service has routes for. */
import type { Board, BoardIterator } from "../board/board.ts"
import { checkCallOptions, checkPostOptions, detailsOf } from "../board/call-options.ts"
import type { BoardClaim, ClaimOptions, TakeOptions } from "../board/claiming.ts"
import { idOf } from "../board/handles.ts"
import type { BoardPage, IterateOptions, ListOptions } from "../board/iterating.ts"
import { BoardJob, type JobBoard, type JobWaitOptions, jobWaitOf } from "../board/job.ts"
import { noJob, noneToClaim } from "../board/no-job.ts"
import type { ExtendOptions, HeldOptions } from "../board/owning.ts"
import type { BoardEntity, PostOptions } from "../board/requests.ts"
import type { TrashOptions } from "../board/trash.ts"
import type { BoardJobView } from "../board/view.ts"
import { CallboardError } from "../errors.ts"
import { type DurationInput, milliseconds } from "../options/duration.ts"
import { refuseInput } from "../options/refuse.ts"
import { BOARD_NAME_RULE, isBoardName } from "../protocol/board-name.ts"
import { compact } from "../protocol/compact.ts"
import { askOf, type HttpClient } from "./http-client.ts"
import { type Ask, POLL_MS } from "./http-request.ts"

/** A claim over HTTP. Nothing renews it: it lapses unless it is extended. */
export type HttpBoardClaim = Omit<BoardClaim, "signal">

/** Jobs of a board, read a page at a time. */
export type HttpBoardIterator = Omit<BoardIterator, "board">

type Methods = Pick<
  Board,
  | "name"
  | "post"
  | "list"
  | "count"
  | "job"
  | "find"
  | "findOwner"
  | "expiresIn"
  | "extendExpiry"
  | "consume"
  | "abandon"
  | "trash"
  | "trashed"
  | "trashedJob"
  | "restore"
  | "entities"
  | "waitFor"
>

/**
 * A board of a service: {@link Board} without notifications, registering entities, and a life cycle. A claim without `expiry`
 * holds for 60 seconds. Every method fails as that of {@link Board} does, and as {@link HttpJob} does.
 */
export interface HttpBoard extends Methods {
  iterate(options?: IterateOptions): HttpBoardIterator
  wait(timeout?: DurationInput, signal?: AbortSignal): Promise<HttpBoardIterator>
  claim(job: BoardJob | string, owner: string, options?: ClaimOptions): Promise<HttpBoardClaim>
  take(owner: string, options?: TakeOptions): Promise<HttpBoardClaim>
}

/** What this process knows of a job: its last view, and the claim that was made here. */
interface KnownJob {
  last: BoardJobView
  claim?: { readonly owner: string; readonly number: number }
}

/**
 * A job board of a service, from which workers claim the jobs they want. Fails with `invalid-input`.
 *
 * @example
 * ```ts
 * const client = connectHttp("http://127.0.0.1:7420")
 * const claim = await httpBoard(client, "print").take("printer-1")
 * ```
 */
export const httpBoard = (client: HttpClient, name: string): HttpBoard => new OverHttp(askOf(client), name)

class OverHttp implements HttpBoard, JobBoard {
  readonly name: string
  readonly #ask: Ask
  readonly #handles = new WeakMap<BoardJob, KnownJob>()

  constructor(ask: Ask, name: string) {
    this.name = isBoardName(name) ? name : refuseInput("board", BOARD_NAME_RULE)
    this.#ask = ask
  }

  async post(name: string, options: PostOptions = {}): Promise<BoardJob> {
    checkPostOptions(options)
    const { details } = options
    const body = { ...options, name, ...(details === undefined ? {} : { details: detailsOf(details).details }) }
    return this.#handle(await this.#ask("POST /v1/boards/{board}/jobs", { board: this.name, body }, "state"))
  }

  async list(options: ListOptions = {}): Promise<BoardPage> {
    checkCallOptions("list", options)
    const { limit, onlyUnclaimed, after } = options
    return this.#ask(
      "GET /v1/boards/{board}/jobs",
      { board: this.name, query: { limit, unclaimed: onlyUnclaimed, cursor: after } },
      "jobs",
    )
  }

  iterate(options: IterateOptions = {}): HttpBoardIterator {
    checkCallOptions("iterate", options)
    const { onlyUnclaimed = false, fresh = false } = options
    const unreadable: Array<string> = []
    const jobs = this.#iterate(onlyUnclaimed, fresh, unreadable)
    return {
      onlyUnclaimed,
      fresh,
      unreadable,
      next: () => jobs.next(),
      return: () => jobs.return(),
      throw: (error) => jobs.throw(error),
      [Symbol.asyncIterator]() {
        return this
      },
    }
  }

  async *#iterate(
    onlyUnclaimed: boolean,
    fresh: boolean,
    unreadable: Array<string>,
  ): AsyncGenerator<BoardJob, void, undefined> {
    let after: string | undefined
    do {
      const page = await this.list({ onlyUnclaimed, ...compact({ after }) })
      for (const key of page.unreadable) if (!unreadable.includes(key)) unreadable.push(key)
      for (const listed of page.jobs) {
        const view = fresh ? await this.#known(listed.id) : listed
        if (view !== undefined && !(onlyUnclaimed && view.owner !== null)) yield this.#handle(view)
      }
      after = page.next
    } while (after !== undefined)
  }

  async count(): Promise<number> {
    return (await this.#ask("GET /v1/boards/{board}/count", { board: this.name }, "count")).count
  }

  async job(id: string): Promise<BoardJob> {
    return this.#handle(await this.#ask("GET /v1/boards/{board}/jobs/{id}", this.#named(id), "state"))
  }

  async find(job: BoardJob | string): Promise<BoardJobView> {
    const held = this.#knownOf(job)
    if (held === undefined) return this.#ask("GET /v1/boards/{board}/jobs/{id}", this.#named(job), "state")
    const view = await this.#known(job)
    if (view !== undefined) return view
    const { claim: _claim, ...last } = held.last
    return { ...last, state: "COMPLETE", owner: null, expiresIn: "NOT_CLAIMED" }
  }

  /** `undefined` for a job that is not on the board any more. */
  async #known(job: BoardJob | string): Promise<BoardJobView | undefined> {
    try {
      const view = await this.#ask("GET /v1/boards/{board}/jobs/{id}", this.#named(job), "state")
      const held = this.#knownOf(job)
      if (held !== undefined) held.last = view
      return view
    } catch (refused) {
      if (isNotFound(refused)) return undefined
      throw refused
    }
  }

  async findOwner(job: BoardJob | string): Promise<string | null> {
    return (await this.#known(job))?.owner ?? null
  }

  async expiresIn(job: BoardJob | string): Promise<BoardJobView["expiresIn"]> {
    return (await this.#known(job))?.expiresIn ?? "NOT_CLAIMED"
  }

  async extendExpiry(
    job: BoardJob | string,
    expiry: DurationInput | null,
    options: ExtendOptions = {},
  ): Promise<boolean> {
    checkCallOptions("extendExpiry", options)
    const { owner, claim } = options
    const held = this.#knownOf(job)?.claim
    const own = owner === undefined || owner === held?.owner ? held : undefined
    const body = { expiry, ...compact({ owner: owner ?? own?.owner, claim: claim ?? own?.number }) }
    const request = { ...this.#named(job), body }
    return (await this.#ask("POST /v1/boards/{board}/jobs/{id}/extend", request, "extended")).extended
  }

  async claim(job: BoardJob | string, owner: string, options: ClaimOptions = {}): Promise<HttpBoardClaim> {
    checkCallOptions("claim", options)
    const { expiry } = options
    const request = { ...this.#named(job), body: { owner, ...compact({ expiry }) } }
    return this.#claimed(await this.#ask("POST /v1/boards/{board}/jobs/{id}/claim", request, "claim"), job)
  }

  async take(owner: string, options: TakeOptions = {}): Promise<HttpBoardClaim> {
    checkCallOptions("take", options)
    const { expiry, wait = 0, signal } = options
    const request = { board: this.name, body: { owner, ...compact({ expiry }) } }
    const ms = milliseconds("wait", wait)
    return this.#claimed(
      await this.#polled(ms, signal, (part) =>
        this.#ask("POST /v1/boards/{board}/claim", { ...request, ...part }, "claim").then(
          found,
          notFound(part.waitMs, ms, (waited) => noneToClaim(this.name, waited)),
        ),
      ),
    )
  }

  async wait(timeout?: DurationInput, signal?: AbortSignal): Promise<HttpBoardIterator> {
    const ms = timeout === undefined ? Number.POSITIVE_INFINITY : milliseconds("timeout", timeout)
    await this.#polled(ms, signal, ({ query, ...part }) =>
      this.#ask(
        "GET /v1/boards/{board}/jobs",
        { ...part, board: this.name, query: { ...query, limit: 1 } },
        "jobs",
      ).then(
        found,
        notFound(part.waitMs, ms, (waited) => noJob(this.name, waited)),
      ),
    )
    return this.iterate()
  }

  async waitFor(job: BoardJob | string, options: JobWaitOptions = {}): Promise<boolean> {
    const { timeoutMs } = jobWaitOf(options)
    const { signal } = options
    try {
      return await this.#polled<boolean>(timeoutMs, signal, async (part) => {
        const request = { ...this.#named(job), ...part }
        const { complete } = await this.#ask("GET /v1/boards/{board}/jobs/{id}/complete", request, "complete")
        return complete ? { found: true } : { refused: false }
      })
    } catch (refused) {
      if (refused === false || signal?.aborted) return false
      throw refused
    }
  }

  /**
   * Sends requests that wait, one after the other, until something is found or the time is over: then it fails with the
   * error of the last answer.
   */
  async #polled<A>(
    ms: number,
    signal: AbortSignal | undefined,
    ask: (part: Part) => Promise<{ readonly found: A } | { readonly refused: unknown }>,
  ): Promise<A> {
    const end = performance.now() + ms
    for (;;) {
      const waitMs = Math.ceil(Math.min(Math.max(end - performance.now(), 0), POLL_MS))
      if (signal?.aborted) throw this.#givenUp()
      const answer = await ask({ query: { wait: `${waitMs}ms` }, waitMs, signal }).catch((refused: unknown) => {
        throw signal?.aborted ? this.#givenUp() : refused
      })
      if ("found" in answer) return answer.found
      if (performance.now() >= end) throw answer.refused
    }
  }

  #givenUp(): CallboardError {
    return new CallboardError("not-found", `the wait for a job of board ${this.name} was cancelled`)
  }

  consume(job: BoardJob | string, owner: string, options?: HeldOptions): Promise<BoardJobView> {
    return this.#end("consume", job, owner, options)
  }

  abandon(job: BoardJob | string, owner: string, options?: HeldOptions): Promise<BoardJobView> {
    return this.#end("abandon", job, owner, options)
  }

  trash(job: BoardJob | string, owner: string, options?: HeldOptions): Promise<BoardJobView> {
    return this.#end("trash", job, owner, options)
  }

  async #end(
    how: "consume" | "abandon" | "trash",
    job: BoardJob | string,
    owner: string,
    options: HeldOptions = {},
  ): Promise<BoardJobView> {
    checkCallOptions(how, options)
    const held = this.#knownOf(job)
    const own = held?.claim
    const claim = options.claim ?? (own?.owner === owner ? own?.number : undefined)
    const body = { owner, ...compact({ claim }) }
    const view = await this.#ask(`POST /v1/boards/{board}/jobs/{id}/${how}`, { ...this.#named(job), body }, "state")
    if (held !== undefined) {
      held.last = view
      delete held.claim
    }
    return view
  }

  async trashed(options: TrashOptions = {}) {
    checkCallOptions("trashed", options)
    const { limit, after } = options
    const request = { board: this.name, query: { limit, cursor: after } }
    return (await this.#ask("GET /v1/boards/{board}/trash", request, "jobs")).jobs
  }

  async trashedJob(id: string): Promise<BoardJobView> {
    return this.#ask("GET /v1/boards/{board}/trash/{id}", { board: this.name, id }, "state")
  }

  async restore(id: string): Promise<BoardJob> {
    return this.#handle(
      await this.#ask("POST /v1/boards/{board}/trash/{id}/restore", { board: this.name, id }, "state"),
    )
  }

  async entities(kind?: string): Promise<ReadonlyArray<BoardEntity>> {
    const { entities } = await this.#ask("GET /v1/boards/{board}/entities", { board: this.name }, "entities")
    return entities.filter((entity) => kind === undefined || entity.kind === kind)
  }

  #claimed(view: BoardJobView, given?: BoardJob | string): HttpBoardClaim {
    const { owner, claim: number = 0 } = view
    const job = given instanceof BoardJob && this.#handles.has(given) ? given : this.#handle(view)
    const claim = { owner: owner ?? "", number }
    this.#handles.set(job, { last: view, claim })
    const end = (how: "consume" | "abandon" | "trash") => () => this.#end(how, job, claim.owner, { claim: number })
    return { job, ...claim, view, consume: end("consume"), abandon: end("abandon"), trash: end("trash") }
  }

  #handle(view: BoardJobView): BoardJob {
    const { book, createdAt, ...content } = view
    const job = new BoardJob({ ...content, ...(book && { book }), createdAt: Date.parse(createdAt) }, this)
    this.#handles.set(job, { last: view })
    return job
  }

  #knownOf(job: BoardJob | string): KnownJob | undefined {
    return job instanceof BoardJob ? this.#handles.get(job) : undefined
  }

  #named(job: BoardJob | string): { readonly board: string; readonly id: string } {
    return { board: this.name, id: idOf(job) }
  }
}

/** One request of a wait that takes several. */
interface Part {
  readonly query: { readonly wait: string }
  readonly waitMs: number
  readonly signal: AbortSignal | undefined
}

const isNotFound = (refused: unknown): boolean => refused instanceof CallboardError && refused.code === "not-found"

const found = <A>(value: A): { readonly found: A } => ({ found: value })

/** The service says how long one request has waited, of the several that a wait of `ms` may take. */
const notFound =
  (partMs: number, ms: number, over: (ms: number) => CallboardError) =>
  (refused: unknown): { readonly refused: unknown } => {
    if (!(refused instanceof CallboardError && isNotFound(refused))) throw refused
    return { refused: refused.message === over(partMs).message ? over(ms) : refused }
  }
