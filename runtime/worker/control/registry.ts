/**
 * This worker's entries in the directory: its name, and what it does, for as long as it sends heartbeats. A name
 * belongs to one living worker.
 */
import {
  ACTOR_REFRESH_MS,
  type ActorDescription,
  actorEntries,
  HEARTBEAT_MS,
  listWorkers,
  WORKER_TTL_MS,
  WORKERS,
  type WorkerDescription,
} from "../../cluster/directory.ts"
import { joinRoster, leaveRoster } from "../../cluster/roster.ts"
import { isDead, isThisProcess } from "../../cluster/worker-process.ts"
import { CallboardError } from "../../errors.ts"
import type { Log } from "../../log/log.ts"
import type { Revision, Store } from "../../transport/store.ts"
import { sleep } from "../../transport/timers.ts"

const END_PATIENCE_MS = 2_000
/** Interval of looks at another worker that has the name: a living one has sent a heartbeat by the second look. */
const LOOK_MS = HEARTBEAT_MS / 4
/** Heartbeats further apart than this were kept from being written by an outage. */
const GAP_MS = 1.5 * HEARTBEAT_MS

export interface RegistryOptions {
  readonly store: Store
  readonly log: Log
  readonly actors: ReadonlyArray<ActorDescription>
  /** Describes the worker; called for each heartbeat. */
  readonly describe: () => WorkerDescription
  /** How long a worker waits at most between two tries to reach a lost transport, in milliseconds. */
  readonly reconnectMs: number
  /** Whether all workers of a queue have one lease. */
  readonly sharedLease: boolean
  /** Called once, when it turns out after {@link Registry.begin} that a living worker has the name. */
  readonly onTaken: (error: CallboardError) => void
}

export class Registry {
  readonly #options: RegistryOptions
  /** Called with the description before each write of it. */
  onDescribed: ((worker: WorkerDescription) => void) | undefined
  /** Called after each heartbeat, with the age that the entry had before it. */
  onWritten: ((ageMs: number) => void) | undefined
  // When the actors were last written, by the monotonic clock: entries that are not renewed expire.
  #actorsAt = Number.NEGATIVE_INFINITY
  #timer: ReturnType<typeof setInterval> | undefined
  #ended = false
  /** The revision of this worker's entry as it was written last, while that is known. */
  #revision: Revision | undefined
  /** Last known heartbeat of another worker that has the name. */
  #otherHeartbeat: string | undefined
  /** When the last heartbeat was written, and when the first one after an outage was. */
  #beatAt = performance.now()
  #backAt = Number.NEGATIVE_INFINITY
  /** When this worker first reached the transport since its start, or since the last outage. */
  #reachedAt = Number.POSITIVE_INFINITY
  /** Whether its note is in the roster. Others may have struck it off in an outage. */
  #isNoted = false
  /** When the last write of the entry began. */
  #writtenAt = Number.NEGATIVE_INFINITY
  #beating: Promise<void> = Promise.resolve()
  #next: Promise<void> | undefined

  constructor(options: RegistryOptions) {
    this.#options = options
  }

  /**
   * Takes the name and keeps it. The entry of a dead worker is waited out, or replaced where its death can be seen.
   * Fails with `CallboardError` `invalid-input` when a living worker has the name. A transport that cannot be reached
   * does not keep the worker from starting: the heartbeats go on trying. {@link Registry.end} ends the wait for the
   * name.
   */
  async begin(): Promise<void> {
    const takingName = this.#takeName()
    // Heartbeats that are requested meanwhile, and the end of the worker, come after the name was written.
    this.#beating = takingName.then(
      () => undefined,
      () => undefined,
    )
    const isOurs = await takingName
    if (this.#ended) return
    this.#timer = setInterval(() => void this.beat(), HEARTBEAT_MS)
    if (this.#options.sharedLease) void this.#noteOtherLeases()
    if (isOurs) await this.beat()
  }

  /** Names the workers whose lease differs, since only one of the two holds. Never rejects. */
  async #noteOtherLeases(): Promise<void> {
    const { store, log, describe } = this.#options
    const own = describe()
    const others = await listWorkers(store).catch(() => [])
    for (const other of others) {
      const { name, queues, lease = own.lease } = other
      if (name === own.name || lease === own.lease || isDead(other) || !queues.some((q) => own.queues.includes(q)))
        continue
      const both = `has a lease of ${lease} s, but this worker has one of ${own.lease} s`
      log.warn(`worker ${name} of the same queue ${both}: the longer lease applies to both; use the same lease`)
    }
  }

  async #takeName(): Promise<boolean> {
    try {
      for (const deadline = performance.now() + 2 * WORKER_TTL_MS; !this.#ended && performance.now() < deadline; ) {
        if (await this.#writeEntry()) return true
        await sleep(LOOK_MS)
      }
    } catch (cause) {
      if (cause instanceof CallboardError) throw cause
      this.#options.log.debug("the worker could not be registered yet", { cause: String(cause) })
    }
    return false
  }

  /**
   * Writes the entry if there is none, or if it is this worker's own or a dead worker's. It uses compare-and-set, since
   * the entry may have expired and belong to another worker: its own entry is not even read, as long as no other worker
   * has written it. False: the name is not this worker's now. Fails when a living worker has it.
   */
  async #writeEntry(): Promise<boolean> {
    const { store, describe } = this.#options
    const own = describe()
    this.onDescribed?.(own)
    const known = this.#revision
    const found = known === undefined ? await WORKERS.get(store, own.name) : { value: own, revision: known }
    const other = found?.value
    if (other !== undefined && !isOwn(other, own) && !isDead(other)) {
      this.#otherHeartbeat ??= other.heartbeatAt
      if (other.heartbeatAt !== this.#otherHeartbeat || isThisProcess(other)) throw nameTaken(other)
      return false
    }
    this.#revision = undefined
    const written = await WORKERS.replace(store, own.name, own, found?.revision ?? "")
    if (written === "conflict") return known === undefined ? false : this.#writeEntry()
    this.#revision = written
    this.#otherHeartbeat = undefined
    return true
  }

  /** Writes a heartbeat with the worker's present state, at once or after the one that is under way. Never rejects. */
  beat(): Promise<void> {
    this.#next ??= this.#beating.then(() => {
      this.#next = undefined
      this.#beating = this.#beat()
      return this.#beating
    })
    return this.#next
  }

  async #beat(): Promise<void> {
    if (this.#ended) return
    const { store, actors, log, onTaken } = this.#options
    const now = performance.now()
    try {
      if (await this.#writeEntry()) this.#entryWritten(now)
      this.#heartbeatWritten(performance.now())
      if (!this.#isNoted) await joinRoster(store, this.#options.describe())
      this.#isNoted = true
      if (now - this.#actorsAt >= ACTOR_REFRESH_MS) {
        for (const entry of actorEntries(actors)) await store.write([entry])
        // Set after all were written, so that a failed write is repeated with the next heartbeat.
        this.#actorsAt = now
      }
    } catch (cause) {
      if (cause instanceof CallboardError && !this.#ended) {
        this.#stop()
        onTaken(cause)
      } else
        log.debug("the heartbeat could not be written", {
          cause: cause instanceof Error ? cause.message : String(cause),
        })
    }
  }

  #entryWritten(now: number): void {
    const ageMs = now - this.#writtenAt
    this.#writtenAt = now
    this.onWritten?.(ageMs)
  }

  /** Milliseconds since this worker last wrote its entry, at most; `Infinity`: never. */
  get ageMs(): number {
    return performance.now() - this.#writtenAt
  }

  #heartbeatWritten(now: number): void {
    if (now - this.#beatAt > GAP_MS) {
      this.#backAt = now
      this.#reachedAt = now
      this.#isNoted = false
    }
    this.#reachedAt = Math.min(this.#reachedAt, now)
    this.#beatAt = now
  }

  /**
   * Whether this worker has reached the transport for so long that any other living worker would have reconnected and
   * registered again.
   */
  get hasWaited(): boolean {
    return performance.now() - this.#reachedAt >= this.#options.reconnectMs + WORKER_TTL_MS
  }

  /**
   * Whether every living worker has an up-to-date entry. That is not certain during an outage, in which entries expire,
   * nor until the life of an entry after it has passed, since other workers reconnect in their own time.
   */
  get isComplete(): boolean {
    const now = performance.now()
    return now - this.#beatAt <= GAP_MS && now - this.#backAt >= WORKER_TTL_MS
  }

  #stop(): void {
    this.#ended = true
    clearInterval(this.#timer)
  }

  async end(): Promise<void> {
    this.#stop()
    // A transport that does not answer must not keep the worker from ending; the entry expires by itself.
    await Promise.race([
      this.#removeEntry().catch(() => undefined),
      new Promise((resolve) => setTimeout(resolve, END_PATIENCE_MS).unref()),
    ])
  }

  /** Removes the entry, if it is this worker's, and its note in the roster. */
  async #removeEntry(): Promise<void> {
    const { store, describe } = this.#options
    // A write that is under way would bring the entry back.
    await (this.#next ?? this.#beating)
    const own = describe()
    await leaveRoster(store, own)
    await WORKERS.change(store, own.name, (found) =>
      found?.value !== undefined && isOwn(found.value, own) ? "remove" : "keep",
    )
  }
}

const isOwn = ({ instance }: WorkerDescription, own: WorkerDescription): boolean => instance === own.instance

const nameTaken = ({ name, host, pid }: WorkerDescription): CallboardError =>
  new CallboardError(
    "invalid-input",
    `name: a running worker is already named ${name} (process ${pid} on ${host}); choose another name, or none to generate one`,
    { field: "name" },
  )
