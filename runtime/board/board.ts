/**
 * A job board over the store: jobs are posted, iterated, and claimed by the worker that wants them. One entry per job,
 * changed by compare-and-set alone, and leases by the clock of the store, so that every transport is a board.
 */
import type { Connection } from "../connection/connection.ts"
import { type DurationInput, milliseconds } from "../options/duration.ts"
import { refuseInput, refuseUnknown } from "../options/refuse.ts"
import { checkBoardName, type EarlierClaim } from "../protocol/board.ts"
import { checkCallOptions } from "./call-options.ts"
import { type BoardClaim, type ClaimOptions, claim, type TakeOptions, take } from "./claiming.ts"
import { entities, registerEntity } from "./entities.ts"
import { accepted, boardError, missing, notConnected } from "./failure.ts"
import { Handles } from "./handles.ts"
import { type BoardPage, count, find, type IterateOptions, iterate, type ListOptions, list } from "./iterating.ts"
import type { BoardJob, JobBoard, JobWaitOptions } from "./job.ts"
import { type BoardEvent, type BoardListener, Listeners } from "./notifications.ts"
import { type ExtendOptions, end, extendExpiry, findOwner, type HeldOptions, timeLeft } from "./owning.ts"
import { post, postingOf } from "./posting.ts"
import type { BoardEntity, PostOptions } from "./requests.ts"
import { type BoardParts, type InSession, Session } from "./session.ts"
import { restore, type TrashOptions, trashed, trashedJob } from "./trash.ts"
import type { BoardJobView } from "./view.ts"
import { waitForAny, waitForEnd } from "./waiting.ts"

export interface BoardOptions {
  /**
   * How long a claim without an `expiry` of its own holds, unless it is renewed, and how long an entity is listed after its
   * process died. The board renews both while it is connected. Defaults to 60 seconds; 1 second at least.
   */
  readonly lease?: DurationInput | undefined
  /** How long after a claim has lapsed the job cannot be claimed: time for its last owner to notice. Defaults to 0. */
  readonly reclaimAfter?: DurationInput | undefined
  /**
   * Called after a job was claimed whose earlier claim had lapsed, and before the new claim is handed over: it rolls
   * back what the last owner has left behind. Where it fails the claim is abandoned and fails too, and the hook is
   * called again for the next claim.
   */
  readonly onTakeover?: ((job: BoardJobView, lost: EarlierClaim) => unknown) | undefined
}

const OPTIONS = { lease: true, reclaimAfter: true, onTakeover: true } satisfies Record<keyof BoardOptions, true>

const DEFAULT_LEASE_MS = 60_000

export interface BoardIterator extends AsyncIterableIterator<BoardJob, void> {
  readonly board: Board
  readonly onlyUnclaimed: boolean
  readonly fresh: boolean
  /** Keys of entries that could not be read, and were skipped so far. */
  readonly unreadable: ReadonlyArray<string>
}

/** Connects a board. Resolves with the connection, and with a function that gives it back. */
export type OpenBoard = () => Promise<{ readonly connection: Connection; readonly close: () => Promise<void> }>

export class Board implements JobBoard, AsyncDisposable {
  readonly name: string
  readonly #open: OpenBoard
  readonly #parts: BoardParts
  #connecting: Promise<void> = Promise.resolve()
  #session: Session | undefined

  /** `connected`: a connection that the board uses from the beginning, without {@link connect}, and does not close. */
  constructor(name: string, open: OpenBoard, options: BoardOptions = {}, connected?: Connection) {
    refuseUnknown(options, OPTIONS, "a board")
    const { lease, reclaimAfter = 0, onTakeover } = options
    this.name = accepted(checkBoardName(name))
    this.#open = open
    this.#parts = {
      name: this.name,
      leaseMs: lease === undefined ? DEFAULT_LEASE_MS : milliseconds("lease", lease, refuseInput, { min: 1_000 }),
      reclaimAfterMs: milliseconds("reclaimAfter", reclaimAfter),
      onTakeover,
      handles: new Handles(this),
      listeners: new Listeners(),
    }
    if (connected !== undefined) this.#session = new Session(this.#parts, connected, async () => undefined)
  }

  // ── Life cycle ───────────────────────────────────────────────────────────────────────────────────────────────────

  get connected(): boolean {
    return this.#session !== undefined
  }

  /**
   * Connects the board; does nothing where it is connected. Fails with `transport-unavailable`, and with `invalid-input` and
   * `unsupported` for what the transport does not have.
   */
  connect(): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#session !== undefined) return
      const { connection, close } = await this.#open().catch((thrown: unknown) => {
        throw boardError(this.name, thrown)
      })
      this.#session = new Session(this.#parts, connection, close)
      if (this.#parts.listeners.isUsed) await this.#session.listen()
    })
  }

  /**
   * Closes the board: calls that wait end, claims are not renewed any more, and the connection is given back. Jobs and
   * claims stay in the store.
   */
  close(): Promise<void> {
    return this.#inTurn(async () => {
      const session = this.#session
      this.#session = undefined
      await session?.close()
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

  readonly #run: InSession = async (work) => {
    if (this.#session === undefined) throw notConnected(this.name)
    try {
      return await work(this.#session)
    } catch (thrown) {
      throw boardError(this.name, thrown)
    }
  }

  // ── Posting and iterating ────────────────────────────────────────────────────────────────────────────────────────

  /** Posts a job. Fails with `invalid-input`, naming the field, and with `too-large`. */
  async post(name: string, options: PostOptions = {}): Promise<BoardJob> {
    const posting = postingOf(name, options)
    return this.#run((session) => post(session, posting))
  }

  /** The jobs by priority, then in the order of posting. An entry that cannot be read is skipped, and reported. Fails with `invalid-input`. */
  iterate(options: IterateOptions = {}): BoardIterator {
    checkCallOptions("iterate", options)
    const { onlyUnclaimed = false, fresh = false } = options
    const unreadable: Array<string> = []
    const jobs = iterate(this.#run, { onlyUnclaimed, fresh }, unreadable)
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

  /** A page of jobs in the order of {@link iterate}: pass `next` on as `after` until there is none. */
  list(options: ListOptions = {}): Promise<BoardPage> {
    return list(this.#run, options)
  }

  /** Number of jobs on the board, claimed ones included. Reads the whole board. */
  count(): Promise<number> {
    return this.#run(count)
  }

  /** A job by its id. Fails with `not-found`. */
  job(id: string): Promise<BoardJob> {
    return this.#run(async ({ entries }) => this.#parts.handles.handle((await entries.job(id)) ?? missing(id)))
  }

  /**
   * The job as it is now; of a job that is not on the board any more the last known view, with the state `COMPLETE`.
   */
  find(job: BoardJob | string): Promise<BoardJobView> {
    return this.#run((session) => find(session, job))
  }

  /**
   * Resolves with an iterator once there is a job, claimed or not. Fails with `not-found` when the timeout is over, or the
   * signal fires.
   */
  async wait(timeout?: DurationInput, signal?: AbortSignal): Promise<BoardIterator> {
    await waitForAny(this.#run, this.name, timeout, signal)
    return this.iterate()
  }

  /**
   * Waits until the job is consumed or trashed; resolves with false where the timeout is over first. Fails with
   * `invalid-input`.
   */
  waitFor(job: BoardJob | string, options?: JobWaitOptions): Promise<boolean> {
    return waitForEnd(this.#run, job, options)
  }

  // ── Claims ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * Claims a job for an owner. Fails with `unclaimable`, which names the present owner, with `not-found` for a job that
   * is not on the board any more, and with `invalid-input`.
   */
  claim(job: BoardJob | string, owner: string, options?: ClaimOptions): Promise<BoardClaim> {
    return claim(this.#run, this.#parts, job, owner, options)
  }

  /**
   * Claims the first job that can be claimed, and waits for one. Fails with `not-found` when the time is over, and with
   * `invalid-input`.
   */
  take(owner: string, options?: TakeOptions): Promise<BoardClaim> {
    return take(this.#run, this.#parts, owner, options)
  }

  /**
   * Takes a finished job off the board; resolves with the job and its claims. Fails with `not-found` where no claim
   * holds, with `not-owner`, which names the owner, and with `invalid-input`.
   */
  consume(job: BoardJob | string, owner: string, options?: HeldOptions): Promise<BoardJobView> {
    return end(this.#run, "consumed", job, owner, options)
  }

  /** Gives a claim up: the job can be claimed again. Fails as {@link consume} does. */
  abandon(job: BoardJob | string, owner: string, options?: HeldOptions): Promise<BoardJobView> {
    return end(this.#run, "abandoned", job, owner, options)
  }

  /** Puts a job into the trash. Fails as {@link consume} does. */
  trash(job: BoardJob | string, owner: string, options?: HeldOptions): Promise<BoardJobView> {
    return end(this.#run, "trashed", job, owner, options)
  }

  /** Owner of the claim that holds; `null` where none does, or the job is not on the board. */
  findOwner(job: BoardJob | string): Promise<string | null> {
    return this.#run((session) => findOwner(session, job))
  }

  /** Seconds until the claim of a job lapses. */
  expiresIn(job: BoardJob | string): Promise<BoardJobView["expiresIn"]> {
    return this.#run((session) => timeLeft(session, job))
  }

  /**
   * Sets how long a claim holds from now on, longer or shorter than before, and ends its automatic renewal. Resolves
   * with false where no claim holds. Fails with `not-owner` where an owner is named that has not claimed the job, and
   * with `invalid-input`.
   */
  extendExpiry(job: BoardJob | string, expiry: DurationInput | null, options?: ExtendOptions): Promise<boolean> {
    return extendExpiry(this.#run, job, expiry, options)
  }

  // ── Trash ────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** The jobs in the trash, by id, a page at a time: pass the id of the last one on as `after`. */
  trashed(options?: TrashOptions): Promise<ReadonlyArray<BoardJobView>> {
    return trashed(this.#run, options)
  }

  /** A job in the trash. Fails with `not-found`. */
  trashedJob(id: string): Promise<BoardJobView> {
    return this.#run((session) => trashedJob(session, id))
  }

  /**
   * Puts a job from the trash back on the board, under its id and at its old place in the order. Fails with
   * `not-found`.
   */
  restore(id: string): Promise<BoardJob> {
    return this.#run((session) => restore(session, id))
  }

  // ── Entities and notifications ───────────────────────────────────────────────────────────────────────────────────

  /**
   * Lists a process as one that works for the board, until the board is closed or the process dies; registering it again
   * changes its metadata. Fails with `invalid-input`.
   */
  registerEntity(entity: BoardEntity): Promise<void> {
    return registerEntity(this.#run, entity)
  }

  /** The processes that work for the board. */
  entities(kind?: string): Promise<ReadonlyArray<BoardEntity>> {
    return this.#run((session) => entities(session, kind))
  }

  /**
   * Calls the listener with `POSTED`, `REMOVAL` and `UNREADABLE`, or with all for `*`, until the returned function is
   * called. Resolves once it listens. An error that the listener throws is ignored.
   */
  async on(event: BoardEvent["event"] | "*", listener: BoardListener): Promise<() => void> {
    const stop = this.#parts.listeners.add(event, listener)
    try {
      await this.#run((session) => session.listen())
    } catch (refused) {
      stop()
      throw refused
    }
    return stop
  }
}
