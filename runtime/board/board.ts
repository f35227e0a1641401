/**
 * A job board over the store: jobs are posted, iterated, and claimed by the worker that wants them. One entry per job,
 * changed by compare-and-set alone, and leases by the clock of the store, so that every transport is a board.
 */
import * as Result from "effect/Result"
import { StoreEntry } from "../async/store-entry.ts"
import type { Connection } from "../connection/connection.ts"
import { asTransportError, CallboardError } from "../errors.ts"
import { generateId } from "../id.ts"
import { type DurationInput, milliseconds } from "../options/duration.ts"
import { refuseInput, refuseUnknown } from "../options/refuse.ts"
import {
  BOARD_PRIORITIES,
  BOARD_RESERVE_BYTES,
  type BoardRecord,
  type BoardRefusal,
  boardJobId,
  checkBoardName,
  checkOwner,
  claimEnded,
  claimed,
  type EarlierClaim,
  earlierClaims,
  extended,
  hasRestored,
  liveClaim,
  parsePriority,
  placeOf,
  posted,
  restored,
} from "../protocol/board.ts"
import { Candidates } from "./candidates.ts"
import { BoardEntries, type Known } from "./entries.ts"
import { accepted, boardError, notConnected } from "./failure.ts"
import { BoardJob, type JobBoard, type JobWaitOptions } from "./job.ts"
import { BoardNews, type BoardNotification } from "./news.ts"
import { Places } from "./places.ts"
import { BoardReader, type ReadAfter } from "./reading.ts"
import { Renewals } from "./renewals.ts"
import {
  type BoardEntity,
  detailsOf,
  EntityRequest,
  entityKey,
  expiryOf,
  type PostOptions,
  parseEntity,
  parsePost,
} from "./requests.ts"
import { type BoardJobView, expiresIn, viewOf } from "./view.ts"

export interface BoardOptions {
  /**
   * How long a claim without an `expiry` of its own holds, unless it is renewed, and how long an entity is listed after its
   * process died. The board renews both while it is connected. Defaults to 60 seconds; 1 second at least.
   */
  readonly lease?: DurationInput
  /** How long after a claim has lapsed the job cannot be claimed: time for its last owner to notice. Defaults to 0. */
  readonly reclaimAfter?: DurationInput
  /**
   * Called after a job was claimed whose earlier claim had lapsed, before the claim is handed over: to roll back what the
   * last owner has left. Where it fails the claim is abandoned, and fails too.
   */
  readonly onTakeover?: (job: BoardJobView, lost: EarlierClaim) => unknown
}

const OPTIONS = { lease: true, reclaimAfter: true, onTakeover: true } satisfies Record<keyof BoardOptions, true>

export interface ClaimOptions {
  /**
   * How long the claim holds: seconds, or text such as `30s`; `null`: until it is given up. Absent: the lease of the board,
   * renewed while the board is connected.
   */
  readonly expiry?: DurationInput | null
}

export interface TakeOptions extends ClaimOptions {
  /** Longest wait for a job that can be claimed. Defaults to 0. */
  readonly wait?: DurationInput
  readonly signal?: AbortSignal
}

/** Tells a claim from an earlier one of an owner of the same name. */
export interface HeldOptions {
  /** Number of the claim. A handle that has claimed the job knows it. */
  readonly claim?: number
}

/** A claim that was made here. */
export interface BoardClaim {
  readonly job: BoardJob
  readonly owner: string
  /** Rises with each claim of the job. */
  readonly number: number
  /** The job right after the claim, with the claims before and the last owner. */
  readonly view: BoardJobView
  /** Fires when a renewed claim is lost: what the claim is needed for must stop. */
  readonly signal: AbortSignal
  consume(): Promise<BoardJobView>
  abandon(): Promise<BoardJobView>
  trash(): Promise<BoardJobView>
}

export interface IterateOptions {
  /** Only jobs that can be claimed now. Defaults to false. */
  readonly onlyUnclaimed?: boolean
  /** Whether each job is read again right before it is handed over, instead of once for each bucket of 256. */
  readonly fresh?: boolean
}

export interface ListOptions extends Pick<IterateOptions, "onlyUnclaimed"> {
  /** Most jobs, 1 to 1,000. Defaults to 100. */
  readonly limit?: number
  /** `next` of the page before. */
  readonly after?: string
}

export interface BoardPage {
  readonly jobs: ReadonlyArray<BoardJobView>
  /** Absent on the last page. */
  readonly next?: string
  /** Keys of entries that could not be read, and were skipped. */
  readonly unreadable: ReadonlyArray<string>
}

export interface BoardIterator extends AsyncIterableIterator<BoardJob, void> {
  readonly board: Board
  readonly onlyUnclaimed: boolean
  readonly fresh: boolean
  /** Keys of entries that could not be read, and were skipped so far. */
  readonly unreadable: ReadonlyArray<string>
}

export type BoardEvent = BoardNotification | { readonly event: "UNREADABLE"; readonly key: string }
export type BoardListener = (told: BoardEvent) => unknown

/** Connects a board, and says how what it holds is given back. */
export type OpenBoard = () => Promise<{ readonly connection: Connection; readonly close: () => Promise<void> }>

interface Live {
  readonly connection: Connection
  readonly entries: BoardEntries
  readonly places: Places
  readonly reader: BoardReader
  readonly candidates: Candidates
  readonly news: BoardNews
  readonly renewals: Renewals
  readonly stop: AbortController
  readonly close: () => Promise<void>
}

/** What a handle knows of its job. */
interface Held {
  known: Known | undefined
  last: Known["record"]
  claim: { readonly owner: string; readonly number: number } | undefined
}

const DEFAULT_LEASE_MS = 60_000
/** A call that waits looks by itself after this time. */
const LOOK_MS = 1_000
const TRIES = 20
const ENTITIES = 10_000
/** Most keys of unreadable entries that are remembered, so that each is reported once. */
const REPORTED = 1_000

/** What a rule decides: the new entry, `null` to remove it, nothing to leave it; and what goes into the trash with that. */
interface Change<A> {
  readonly to: BoardRecord | null | undefined
  readonly trash?: BoardRecord
  readonly answer: A
}

type Rule<A> = (record: BoardRecord | undefined, now: number) => Result.Result<Change<A>, BoardRefusal>

const idOf = (job: BoardJob | string): string => {
  if (typeof job === "string") return job
  return job instanceof BoardJob ? job.id : refuseInput("id", "must be text, or a job of a board")
}

/** Text so short takes far less room than is there, however it is written. */
const SHORT = 4_096
/** Most bytes of a character of JSON. */
const BYTES = 3

/** Refuses a job that is too large, also with its claims to come, before anything is written. */
const checkSize = (
  entries: BoardEntries,
  content: Omit<Parameters<typeof posted>[0], "id">,
  length: number,
  maxRecord: number,
): void => {
  const most = maxRecord - BOARD_RESERVE_BYTES
  if ((length + SHORT) * BYTES <= most) return
  const size = entries.encode(posted({ id: "", ...content }, 0)).length
  if (size <= most) return
  const message = `a job of ${size} bytes, ${most} are allowed: store large data elsewhere and post its address`
  throw new CallboardError("too-large", message, { field: "details" })
}

const checkLimit = (limit: number): void => {
  if (!(Number.isInteger(limit) && limit >= 1 && limit <= 1_000)) refuseInput("limit", "must be from 1 to 1,000")
}

const cursorOf = (text: string): ReadAfter => {
  const [, name, sequence] = /^([A-Z_]+)\.(\d{1,16})$/.exec(text) ?? []
  const priority = BOARD_PRIORITIES.find((each) => each === name)
  return priority === undefined
    ? refuseInput("cursor", "must be the `next` of the page before")
    : { priority, sequence: Number(sequence) }
}

/** The claim that a claim at this time takes the job over from. */
const lostBy = (record: BoardRecord | undefined, now: number): EarlierClaim | undefined =>
  record?.claim === undefined ? undefined : earlierClaims(record, now).at(-1)

export class Board implements JobBoard, AsyncDisposable {
  readonly name: string
  readonly #open: OpenBoard
  readonly #leaseMs: number
  readonly #reclaimAfterMs: number
  readonly #onTakeover: BoardOptions["onTakeover"]
  readonly #held = new WeakMap<BoardJob, Held>()
  readonly #listeners = new Map<string, Set<BoardListener>>()
  readonly #reported = new Set<string>()
  #connecting: Promise<void> = Promise.resolve()
  #live: Live | undefined

  /** `connected`: what the board uses from the beginning, without {@link connect}. It is left open. */
  constructor(name: string, open: OpenBoard, options: BoardOptions = {}, connected?: Connection) {
    refuseUnknown(options, OPTIONS, "a board")
    const { lease, reclaimAfter = 0, onTakeover } = options
    this.name = accepted(checkBoardName(name))
    this.#open = open
    this.#leaseMs = lease === undefined ? DEFAULT_LEASE_MS : milliseconds("lease", lease, refuseInput, { least: 1_000 })
    this.#reclaimAfterMs = milliseconds("reclaimAfter", reclaimAfter)
    this.#onTakeover = onTakeover
    if (connected !== undefined) this.#begin(connected, async () => undefined)
  }

  // ── Life cycle ───────────────────────────────────────────────────────────────────────────────────────────────────

  get connected(): boolean {
    return this.#live !== undefined
  }

  /** Connects the board; does nothing where it is connected. Fails as the transport does. */
  connect(): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#live !== undefined) return
      const { connection, close } = await this.#open()
      this.#begin(connection, close)
      if (this.#listeners.size > 0) await this.#listen()
    })
  }

  /** Ends what waits, renews nothing any more, and gives the connection back. Jobs and claims stay. */
  close(): Promise<void> {
    return this.#inTurn(async () => {
      const live = this.#live
      if (live === undefined) return
      this.#live = undefined
      await live.news.flush()
      live.stop.abort()
      await live.renewals.close()
      await live.close()
    })
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#connecting.then(work)
    this.#connecting = turn.catch(() => undefined)
    return turn
  }

  #begin(connection: Connection, close: () => Promise<void>): void {
    const stop = new AbortController()
    const entries = new BoardEntries(connection.store, this.name)
    const reader = new BoardReader(entries, (key) => this.#unreadable(key))
    this.#live = {
      connection,
      entries,
      places: new Places(entries),
      reader,
      candidates: new Candidates(reader, connection.store, this.#reclaimAfterMs),
      news: new BoardNews(connection, this.name, stop.signal),
      renewals: new Renewals(this.#leaseMs),
      stop,
      close,
    }
  }

  #required(): Live {
    if (this.#live === undefined) throw notConnected(this.name)
    return this.#live
  }

  /** Runs an operation over the connection. Fails with `not-connected`, and with what the store fails with. */
  async #with<A>(work: (live: Live) => Promise<A>): Promise<A> {
    const live = this.#required()
    try {
      return await work(live)
    } catch (thrown) {
      throw boardError(this.name, thrown)
    }
  }

  // ── Posting and iterating ────────────────────────────────────────────────────────────────────────────────────────

  /** Posts a job. Fails with `invalid-input`, naming the field, and with `too-large`. */
  async post(name: string, options: PostOptions = {}): Promise<BoardJob> {
    const { details: given, priority = "NORMAL", ...job } = parsePost({ ...options, name })
    const { details, length } = detailsOf(given)
    const content = { ...job, priority: accepted(parsePriority(priority)), details }
    return this.#with(async (live) => {
      const { entries, connection } = live
      const now = await entries.store.now()
      checkSize(entries, content, length, connection.transport.capabilities.maxRecord)
      for (let tries = 0; tries < TRIES; tries++) {
        const stored = await this.#store(live, content, now)
        if (stored === undefined) continue
        live.candidates.posted(stored)
        live.news.announce("POSTED", stored.record)
        return this.#handle(stored)
      }
      throw new CallboardError("overloaded", `too many post to board ${this.name} at a time: try again`)
    })
  }

  /** Creates the entry; `undefined` where its place was taken, or is read no more. */
  async #store(
    { entries, places }: Live,
    content: Pick<BoardRecord, "name" | "priority" | "details" | "book">,
    now: number,
  ): Promise<Known | undefined> {
    const place = await places.offer(content.priority)
    const key = entries.slot(place)
    const record = posted({ id: boardJobId(generateId(), place), ...content }, now)
    const written = await entries.store.write([{ key, value: entries.encode(record), expect: "" }])
    if (written === "conflict") {
      places.missed(place)
      return undefined
    }
    places.hit(place)
    const [revision = ""] = written
    const known = { key, record: { ...record, sequence: Number(revision) }, revision }
    const unsure = (failure: unknown): never => {
      const cause = asTransportError(failure)
      const message = `the job may have been posted: ${cause.message}`
      throw new CallboardError("transport-unavailable", message, { outcome: "unknown", cause })
    }
    if (await places.isRead(place).catch(unsure)) return known
    const removed = await entries.store.write([{ key, value: null, expect: revision }]).catch(unsure)
    // A conflict: the job was claimed by then, and so it was found.
    return removed === "conflict" ? known : undefined
  }

  /** The jobs by priority, then in the order of posting. An entry that cannot be read is skipped, and reported. */
  iterate({ onlyUnclaimed = false, fresh = false }: IterateOptions = {}): BoardIterator {
    const unreadable: Array<string> = []
    const jobs = this.#iterate(onlyUnclaimed, fresh, unreadable)
    return {
      board: this,
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
    const { reader, entries } = this.#required()
    const noted = (key: string): void => void (unreadable.includes(key) || unreadable.push(key))
    const jobs = reader.jobs(undefined, noted)
    for (;;) {
      const next = await this.#with(async () => {
        const { value: listed } = await jobs.next()
        if (listed === undefined) return undefined
        const now = await entries.store.now()
        const known = fresh ? await entries.job(listed.record.id) : listed
        const isLeftOut = known === undefined || (onlyUnclaimed && liveClaim(known.record, now) !== undefined)
        return isLeftOut ? ("left out" as const) : this.#handle(known)
      })
      if (next === undefined) return
      if (next !== "left out") yield next
    }
  }

  /** A page of jobs in the order of {@link iterate}: pass `next` on as `after` until there is none. */
  async list({ limit = 100, onlyUnclaimed = false, after }: ListOptions = {}): Promise<BoardPage> {
    const from = after === undefined ? undefined : cursorOf(after)
    checkLimit(limit)
    return this.#with(async ({ reader, entries }) => {
      const unreadable: Array<string> = []
      const found: Array<Known> = []
      const now = await entries.store.now()
      for await (const known of reader.jobs(from, (key) => unreadable.push(key))) {
        if (onlyUnclaimed && liveClaim(known.record, now) !== undefined) continue
        if (found.push(known) > limit) break
      }
      const page = found.slice(0, limit)
      const last = page.at(-1)?.record
      return {
        jobs: page.map(({ record }) => viewOf(record, now)),
        ...(found.length > limit && last !== undefined ? { next: `${last.priority}.${last.sequence}` } : {}),
        unreadable: [...new Set(unreadable)],
      }
    })
  }

  /** Number of jobs on the board, claimed ones too. Reads the whole board. */
  count(): Promise<number> {
    return this.#with(async ({ reader }) => {
      let count = 0
      for await (const _ of reader.jobs()) count++
      return count
    })
  }

  /** A job by its id. Fails with `not-found`. */
  job(id: string): Promise<BoardJob> {
    return this.#with(async ({ entries }) => this.#handle((await entries.job(id)) ?? this.#missing(id)))
  }

  #missing(id: string): never {
    const message = `job ${id} is not on the board: it was consumed or trashed, or was never posted`
    throw new CallboardError("not-found", message, { id })
  }

  /**
   * Resolves with an iterator once there is a job, claimed or not. Fails with `not-found` when the timeout is over, or the
   * signal fires.
   */
  async wait(timeout?: DurationInput, signal?: AbortSignal): Promise<BoardIterator> {
    const ms = timeout === undefined ? Number.POSITIVE_INFINITY : milliseconds("timeout", timeout)
    const found = await this.#waiting(ms, signal, async ({ reader }) => {
      for await (const known of reader.jobs()) return known
      return undefined
    })
    if (found !== undefined) return this.iterate()
    if (signal?.aborted) return this.#givenUp()
    throw new CallboardError("not-found", `there is no job on board ${this.name}: waited ${ms / 1000} s`)
  }

  #givenUp(): never {
    throw new CallboardError("not-found", `the wait for a job of board ${this.name} was given up`)
  }

  /** Looks until something is found, the time is over, the signal fires, or the board is closed. */
  async #waiting<A>(
    ms: number,
    signal: AbortSignal | undefined,
    look: (live: Live) => Promise<A | undefined>,
  ): Promise<A | undefined> {
    const end = performance.now() + ms
    for (;;) {
      const live = this.#required()
      const found = await this.#with(async () => {
        await this.#listen()
        const { heardCount } = live.news
        const found = await look(live)
        if (found !== undefined) return { found }
        const left = Math.min(end - performance.now(), LOOK_MS)
        if (left > 0) await live.news.wait(heardCount, left, signal === undefined ? [] : [signal])
        return undefined
      })
      if (found !== undefined) return found.found
      if (performance.now() >= end || signal?.aborted) return undefined
    }
  }

  // ── Claims ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * Claims a job for an owner. Fails with `unclaimable`, naming the owner it has, with `not-found` for a job that is not on
   * the board any more, and with `invalid-input`.
   */
  async claim(job: BoardJob | string, owner: string, options: ClaimOptions = {}): Promise<BoardClaim> {
    const request = this.#claimRequest(owner, options)
    return this.#with((live) => this.#claim(live, this.#heldOf(job), idOf(job), request, job))
  }

  /**
   * Claims the first job that can be claimed, and waits for one. Fails with `not-found` when the time is over, and with
   * `invalid-input`.
   */
  async take(owner: string, { wait = 0, signal, ...options }: TakeOptions = {}): Promise<BoardClaim> {
    const request = this.#claimRequest(owner, options)
    const ms = milliseconds("wait", wait)
    const taken = await this.#waiting(ms, signal, async (live) => {
      for (;;) {
        const known = signal?.aborted ? undefined : await live.candidates.next()
        if (known === undefined) return undefined
        const handle = this.#handle(known)
        try {
          return await this.#claim(live, this.#heldOf(handle), handle.id, request, handle)
        } catch (refused) {
          const code = refused instanceof CallboardError ? refused.code : undefined
          if (code !== "unclaimable" && code !== "not-found") throw refused
        }
      }
    })
    if (taken === undefined)
      throw new CallboardError("not-found", `no job of board ${this.name} can be claimed: waited ${ms / 1000} s`)
    if (!signal?.aborted) return taken
    // The caller has gone: the job is free again for the next one.
    await taken.abandon()
    return this.#givenUp()
  }

  #claimRequest(owner: string, { expiry }: ClaimOptions) {
    const expiryMs = expiry === undefined ? this.#leaseMs : expiryOf(expiry)
    return { owner: accepted(checkOwner(owner)), expiryMs, isRenewed: expiry === undefined }
  }

  async #claim(
    live: Live,
    held: Held | undefined,
    id: string,
    { owner, expiryMs, isRenewed }: { owner: string; expiryMs: number | null; isRenewed: boolean },
    given: BoardJob | string,
  ): Promise<BoardClaim> {
    const reclaimAfterMs = this.#reclaimAfterMs
    const askedAt = performance.now()
    const { known, answer } = await this.#change(live, held, id, (record, now) =>
      Result.map(claimed(record, { id, owner, expiryMs, reclaimAfterMs }, now), (to) => ({
        to,
        answer: { number: to.claim.number, lost: lostBy(record, now), now },
      })),
    )
    if (known === undefined) return this.#missing(id)
    const job = given instanceof BoardJob ? given : this.#handle(known)
    const { number, lost, now } = answer
    const own = this.#heldOf(job)
    if (own !== undefined) own.claim = { owner, number }
    const renewal = `${id} ${number}`
    const signal = isRenewed
      ? live.renewals.add(renewal, askedAt, () =>
          this.#extend(live, undefined, id, this.#leaseMs, { owner, claim: number }, () => live.renewals.has(renewal)),
        )
      : new AbortController().signal
    const end = (how: "consumed" | "abandoned" | "trashed") => this.#end(how, job, owner, { claim: number })
    const claim: BoardClaim = {
      job,
      owner,
      number,
      get view() {
        return viewOf(known.record, now)
      },
      signal,
      consume: () => end("consumed"),
      abandon: () => {
        // First, so that the claim lapses where it cannot be given up now.
        live.renewals.remove(renewal)
        return end("abandoned")
      },
      trash: () => end("trashed"),
    }
    if (lost === undefined || this.#onTakeover === undefined) return claim
    try {
      await this.#onTakeover(claim.view, lost)
    } catch (failure) {
      await claim.abandon().catch(() => undefined)
      throw new CallboardError("internal", `onTakeover failed for job ${id}: ${String(failure)}`, {
        id,
        cause: failure,
      })
    }
    return claim
  }

  /**
   * Takes a finished job off the board; resolves with the whole story of the job. Fails with `not-found` where no claim
   * holds, with `not-owner`, naming the owner, and with `invalid-input`.
   */
  consume(job: BoardJob | string, owner: string, options?: HeldOptions): Promise<BoardJobView> {
    return this.#end("consumed", job, owner, options)
  }

  /** Gives a claim up: the job can be claimed again. Fails as {@link consume} does. */
  abandon(job: BoardJob | string, owner: string, options?: HeldOptions): Promise<BoardJobView> {
    return this.#end("abandoned", job, owner, options)
  }

  /** Puts a job into the trash. Fails as {@link consume} does. */
  trash(job: BoardJob | string, owner: string, options?: HeldOptions): Promise<BoardJobView> {
    return this.#end("trashed", job, owner, options)
  }

  async #end(
    how: "consumed" | "abandoned" | "trashed",
    job: BoardJob | string,
    given: string,
    options: HeldOptions = {},
  ): Promise<BoardJobView> {
    const owner = accepted(checkOwner(given))
    const id = idOf(job)
    const held = this.#heldOf(job)
    const claim = options.claim ?? (held?.claim?.owner === owner ? held.claim.number : undefined)
    const request = { id, owner, ...(claim === undefined ? {} : { claim }) }
    return this.#with(async (live) => {
      const rule: Rule<{ readonly record: BoardRecord; readonly now: number; readonly number: number }> = (
        record,
        now,
      ) =>
        Result.map(claimEnded(record, how, request, now), (ended) => ({
          to: how === "abandoned" ? ended : null,
          ...(how === "trashed" ? { trash: ended } : {}),
          answer: { record: ended, now, number: record?.claim?.number ?? 0 },
        }))
      const { answer, sequence } = await this.#change(live, held, id, rule)
      live.renewals.remove(`${id} ${answer.number}`)
      const last = { ...answer.record, sequence }
      if (held !== undefined) Object.assign(held, { last, claim: undefined })
      if (how === "abandoned") live.candidates.clear()
      else live.news.announce("REMOVAL", last)
      return viewOf(last, answer.now, how === "abandoned" ? "UNCLAIMED" : "COMPLETE")
    })
  }

  /** Owner of the claim that holds; `null` where none does, or the job is not on the board. */
  findOwner(job: BoardJob | string): Promise<string | null> {
    return this.#with(async ({ entries }) => {
      const known = await entries.job(idOf(job))
      return liveClaim(known?.record, await entries.store.now())?.owner ?? null
    })
  }

  /** Seconds until the claim of a job lapses. */
  expiresIn(job: BoardJob | string): Promise<BoardJobView["expiresIn"]> {
    return this.#with(async ({ entries }) => {
      const known = await entries.job(idOf(job))
      const now = await entries.store.now()
      return expiresIn(liveClaim(known?.record, now), now)
    })
  }

  /**
   * Sets what remains of a claim, up or down, and ends its renewing; false where no claim holds. Fails with `not-owner`
   * where an owner is named that has not claimed the job, and with `invalid-input`.
   */
  async extendExpiry(
    job: BoardJob | string,
    expiry: DurationInput | null,
    options: HeldOptions & { readonly owner?: string } = {},
  ): Promise<boolean> {
    const { owner, claim } = options
    const expiryMs = expiryOf(expiry)
    if (owner !== undefined) accepted(checkOwner(owner))
    const held = this.#heldOf(job)
    const own =
      held?.claim === undefined || (owner !== undefined && owner !== held.claim.owner) ? undefined : held.claim
    const asked = {
      ...(owner === undefined ? (own === undefined ? {} : { owner: own.owner }) : { owner }),
      ...(claim === undefined ? (own === undefined ? {} : { claim: own.number }) : { claim }),
    }
    return this.#with(async (live) => {
      const number = await this.#extend(live, held, idOf(job), expiryMs, asked)
      if (number !== undefined) live.renewals.remove(`${idOf(job)} ${number}`)
      return number !== undefined
    })
  }

  /**
   * The number of the claim that was extended; `undefined` where none holds. `isWanted` is asked again at each try: an owner
   * may have extended the claim while its renewal was under way.
   */
  async #extend(
    live: Live,
    held: Held | undefined,
    id: string,
    expiryMs: number | null,
    asked: { readonly owner?: string; readonly claim?: number },
    isWanted: () => boolean = () => true,
  ): Promise<number | undefined> {
    const { answer } = await this.#change(live, held, id, (record, now) =>
      Result.map(extended(isWanted() ? record : undefined, { id, expiryMs, ...asked }, now), (to) => ({
        to,
        answer: to?.claim?.number,
      })),
    )
    return answer
  }

  /**
   * Changes a job by compare-and-set: `to` is the new entry, `null` removes it, and without one nothing is written. What a
   * handle knows is tried first; a refusal counts only by what the store has now.
   */
  async #change<A>(
    { entries }: Live,
    held: Held | undefined,
    id: string,
    rule: Rule<A>,
  ): Promise<{ readonly answer: A; readonly known: Known | undefined; readonly sequence: number }> {
    let known = held?.known
    let isFresh = false
    for (let tries = 0; tries < TRIES; tries++) {
      if (known === undefined && !isFresh) {
        known = await entries.job(id)
        isFresh = true
      }
      const now = await entries.store.now()
      const decided = rule(known?.record, now)
      if (Result.isSuccess(decided) && (isFresh || decided.success.to !== undefined)) {
        const { to, trash, answer } = decided.success
        const sequence = known?.record.sequence ?? 0
        if (known === undefined || to === undefined) return { answer, known, sequence }
        const { key, revision } = known
        const change = { key, value: to === null ? null : entries.encode({ ...to, sequence }), expect: revision }
        const kept =
          trash === undefined ? [] : [{ key: entries.trashed(id), value: entries.encode({ ...trash, sequence }) }]
        const written = await entries.store.write([change, ...kept])
        if (written !== "conflict") {
          const next = to === null ? undefined : { key, record: { ...to, sequence }, revision: written[0] ?? "" }
          if (held !== undefined) {
            held.known = next
            if (next !== undefined) held.last = next.record
          }
          return { answer, known: next, sequence }
        }
      } else if (isFresh) accepted(decided)
      known = undefined
      isFresh = false
    }
    throw new CallboardError("overloaded", `too many change job ${id} at a time: try again`, { id })
  }

  // ── Trash ────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** The jobs in the trash, by id, a page at a time: pass the last id on as `after`. */
  async trashed({
    limit = 100,
    after,
  }: {
    readonly limit?: number
    readonly after?: string
  } = {}): Promise<ReadonlyArray<BoardJobView>> {
    checkLimit(limit)
    if (after !== undefined && placeOf(after) === undefined)
      refuseInput("cursor", "must be the last id of the page before")
    return this.#with(async ({ entries }) => {
      const prefix = entries.trashed()
      const now = await entries.store.now()
      const jobs: Array<BoardJobView> = []
      for (let last = after === undefined ? undefined : entries.trashed(after); ; ) {
        const range = { prefix, limit: limit - jobs.length, ...(last === undefined ? {} : { after: last }) }
        const found = await entries.store.list(range)
        for (const entry of found) {
          const known = entries.decode(entry)
          if (known === undefined) this.#unreadable(entry.key)
          else jobs.push(viewOf(known.record, now, "COMPLETE"))
        }
        last = found.at(-1)?.key
        // A page is short only at the end: entries that cannot be read do not count.
        if (found.length < range.limit || jobs.length >= limit) return jobs
      }
    })
  }

  /** A job in the trash. Fails with `not-found`. */
  trashedJob(id: string): Promise<BoardJobView> {
    return this.#with(async ({ entries }) => {
      const [known, now] = await Promise.all([this.#inTrash(entries, id), entries.store.now()])
      return viewOf(known.record, now, "COMPLETE")
    })
  }

  /** Puts a job back on the board, at its old place in line and under its id. Fails with `not-found`. */
  restore(id: string): Promise<BoardJob> {
    return this.#with(async (live) => {
      const { entries } = live
      const trashed = await this.#inTrash(entries, id)
      const { priority } = trashed.record
      // Readers look for restored jobs before there is one.
      await entries.changeIndex((index) => hasRestored(index, priority))
      const record = { ...restored(trashed.record, await entries.store.now()), sequence: trashed.record.sequence }
      const key = entries.restored(priority, id)
      const written = await entries.store.write([
        { key, value: entries.encode(record), expect: "" },
        { key: trashed.key, value: null, expect: trashed.revision },
      ])
      if (written === "conflict") return this.#missingInTrash(id)
      live.candidates.clear()
      live.news.announce("POSTED", record)
      return this.#handle({ key, record, revision: written[0] ?? "" })
    })
  }

  async #inTrash(entries: BoardEntries, id: string): Promise<Known> {
    const [found] = placeOf(id) === undefined ? [] : await entries.store.get([entries.trashed(id)])
    return (found === undefined ? undefined : entries.decode(found)) ?? this.#missingInTrash(id)
  }

  #missingInTrash(id: string): never {
    throw new CallboardError("not-found", `job ${id} is not in the trash of board ${this.name}`, { id })
  }

  // ── Entities ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * Lists a process as one that works for the board, until the board is closed or the process dies; registering it again
   * changes its metadata. Fails with `invalid-input`.
   */
  async registerEntity(given: BoardEntity): Promise<void> {
    const { kind, name, metadata } = parseEntity(given)
    const entity = { kind, name, metadata: detailsOf(metadata).details }
    const key = entityKey(entity)
    return this.#with(async ({ connection: { store }, renewals }) => {
      const operation = this.#entities.put(key, entity)
      await store.write([operation])
      renewals.add(
        `entity ${key}`,
        performance.now(),
        () => store.write([operation]),
        () => store.write([this.#entities.remove(key)]),
      )
    })
  }

  /** The processes that work for the board. */
  entities(kind?: string): Promise<ReadonlyArray<BoardEntity>> {
    return this.#with(async ({ connection: { store } }) =>
      (await this.#entities.list(store, ENTITIES))
        .map(({ value }) => value)
        .filter((entity) => kind === undefined || entity.kind === kind),
    )
  }

  get #entities() {
    return new StoreEntry(`board/${this.name}/entity/`, EntityRequest, { ttlMs: this.#leaseMs })
  }

  // ── Notifications ────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * Calls the listener with `POSTED`, `REMOVAL` and `UNREADABLE`, or with all for `*`, until the returned function is called.
   * Resolves once it listens. What a listener throws is its own matter.
   */
  async on(event: BoardEvent["event"] | "*", listener: BoardListener): Promise<() => void> {
    const known: ReadonlyArray<string> = ["POSTED", "REMOVAL", "UNREADABLE", "*"]
    if (!known.includes(event)) refuseInput("event", `must be one of ${known.join(", ")}`)
    if (typeof listener !== "function") refuseInput("listener", "must be a function")
    const listeners = this.#listeners.get(event) ?? new Set()
    this.#listeners.set(event, listeners.add(listener))
    const stop = () => {
      listeners.delete(listener)
    }
    try {
      await this.#with(() => this.#listen())
    } catch (refused) {
      stop()
      throw refused
    }
    return stop
  }

  /** Hears what all processes announce about this board, once however often it is called. */
  #listen(): Promise<void> {
    const { news, candidates } = this.#required()
    return news.listen((told, isOwn) => {
      if (told.event === "POSTED" && !isOwn) candidates.heard(told.priority)
      this.#tell(told)
    })
  }

  #tell(told: BoardEvent): void {
    for (const event of ["*", told.event]) {
      for (const listener of [...(this.#listeners.get(event) ?? [])]) {
        // A listener that fails must neither end the board nor keep the others from hearing.
        void Promise.resolve()
          .then(() => listener({ ...told }))
          .catch(() => undefined)
      }
    }
  }

  #unreadable(key: string): void {
    if (this.#reported.has(key)) return
    if (this.#reported.size >= REPORTED) this.#reported.clear()
    this.#reported.add(key)
    this.#tell({ event: "UNREADABLE", key })
  }

  // ── Handles ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #handle(known: Known): BoardJob {
    const job = new BoardJob(known.record, this)
    this.#held.set(job, { known, last: known.record, claim: undefined })
    return job
  }

  #heldOf(job: BoardJob | string): Held | undefined {
    return job instanceof BoardJob ? this.#held.get(job) : undefined
  }

  /** The job as it is now; of one that is not on the board any more what is known here, with the state `COMPLETE`. */
  find(job: BoardJob | string): Promise<BoardJobView> {
    return this.#with(async ({ entries }) => {
      const id = idOf(job)
      const [known, now] = await Promise.all([entries.job(id), entries.store.now()])
      const held = this.#heldOf(job)
      if (known !== undefined) {
        if (held !== undefined) Object.assign(held, { known, last: known.record })
        return viewOf(known.record, now)
      }
      if (held === undefined) return this.#missing(id)
      const { claim: _claim, ...last } = held.last
      return viewOf(last, now, "COMPLETE")
    })
  }

  /** Whether the job was consumed, or trashed, before the timeout. Fails with `invalid-input`. */
  async waitFor(
    job: BoardJob | string,
    { timeout, delay = 0.01, multiplier = 2, maxDelay = 1, signal }: JobWaitOptions = {},
  ): Promise<boolean> {
    const ms = timeout === undefined ? Number.POSITIVE_INFINITY : milliseconds("timeout", timeout)
    const most = milliseconds("maxDelay", maxDelay)
    let pause = milliseconds("delay", delay)
    if (!(multiplier >= 1)) refuseInput("multiplier", "must be at least 1")
    const end = performance.now() + ms
    for (;;) {
      const isOver = await this.#with(async ({ entries, news }) => {
        await this.#listen()
        const { heardCount } = news
        const known = await entries.job(idOf(job))
        if (known === undefined) return true
        const left = Math.min(end - performance.now(), pause, most)
        if (left > 0) await news.wait(heardCount, left, signal === undefined ? [] : [signal])
        return false
      })
      if (isOver) return true
      if (performance.now() >= end || signal?.aborted) return false
      pause = Math.max(1, Math.min(pause * multiplier, most))
    }
  }
}
