/** This worker's entries in the directory: who it is and what it does, for as long as it beats. One live worker per name. */
import { hostname } from "node:os"
import {
  ACTOR_REFRESH_MS,
  type ActorDescription,
  actorEntries,
  HEARTBEAT_MS,
  isDead,
  WORKER_TTL_MS,
  WORKERS,
  type WorkerDescription,
} from "../../cluster/directory.ts"
import { CallboardError } from "../../errors.ts"
import type { Log } from "../../log/log.ts"
import type { Store } from "../../transport/store.ts"

const END_PATIENCE_MS = 2_000
/** Between two looks at somebody who has the name: a live one has beaten by the second. */
const LOOK_MS = HEARTBEAT_MS / 4
/** Beats that are further apart than this were kept from being written. */
const GAP_MS = 1.5 * HEARTBEAT_MS

export interface RegistryOptions {
  readonly store: Store
  readonly log: Log
  readonly actors: ReadonlyArray<ActorDescription>
  /** Asked for at each beat. */
  readonly describe: () => WorkerDescription
  /** Called once, when it turns out after {@link Registry.begin} that a live worker has the name. */
  readonly onTaken: (error: CallboardError) => void
}

export class Registry {
  readonly #options: RegistryOptions
  // By a clock that nobody sets back: entries that are not told again are forgotten.
  #actorsAt = Number.NEGATIVE_INFINITY
  #timer: ReturnType<typeof setInterval> | undefined
  #ended = false
  /** Whether an entry of ours may be there, also one whose answer was lost. */
  #wrote = false
  /** When somebody else who has the name had last beaten, as far as is known. */
  #otherHeartbeat: string | undefined
  /** When the last beat was written, and the first one after an outage. */
  #beatAt = performance.now()
  #backAt = Number.NEGATIVE_INFINITY
  #beating: Promise<void> = Promise.resolve()
  #next: Promise<void> | undefined

  constructor(options: RegistryOptions) {
    this.#options = options
  }

  /**
   * Takes the name and keeps it. The entry of a worker that died is waited out, or taken over where that can be seen.
   * Fails with `CallboardError` `invalid-input` when a live worker has the name. A transport that cannot be asked now
   * does not keep a worker from starting: the beats go on trying. {@link Registry.end} ends the wait for the name.
   */
  async begin(): Promise<void> {
    const takingName = this.#takeName()
    // What is asked for meanwhile, the end of the worker included, comes after the name was written.
    this.#beating = takingName.then(
      () => undefined,
      () => undefined,
    )
    const isOurs = await takingName
    if (this.#ended) return
    this.#timer = setInterval(() => void this.beat(), HEARTBEAT_MS)
    if (isOurs) await this.beat()
  }

  async #takeName(): Promise<boolean> {
    try {
      for (const deadline = performance.now() + 2 * WORKER_TTL_MS; !this.#ended && performance.now() < deadline; ) {
        if (await this.#writeEntry()) return true
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
      }
    } catch (cause) {
      if (cause instanceof CallboardError) throw cause
      this.#options.log.debug("the worker could not be registered yet", { cause: String(cause) })
    }
    return false
  }

  /**
   * Writes the entry over nothing, over our own, or over that of a dead worker: by compare-and-set, since the name may
   * have lapsed and be somebody else's by now. False: it is not ours now. Fails when a live worker has the name.
   */
  async #writeEntry(): Promise<boolean> {
    const { store, describe } = this.#options
    const { name } = describe()
    const held = await WORKERS.change(store, name, (found) => {
      const other = found?.value
      if (other !== undefined && !this.#isOwn(other) && !isDead(other)) {
        this.#otherHeartbeat ??= other.heartbeatAt
        if (other.heartbeatAt !== this.#otherHeartbeat || isThisProcess(other)) throw nameTaken(other)
        return "keep"
      }
      this.#wrote = true
      return { value: describe() }
    })
    if (held === "keep" || held === "conflict") return false
    this.#otherHeartbeat = undefined
    return true
  }

  #isOwn({ host, pid, startedAt }: WorkerDescription): boolean {
    const own = this.#options.describe()
    return this.#wrote && host === own.host && pid === own.pid && startedAt === own.startedAt
  }

  /** Says how the worker stands, at once or after the beat that is under way. Never fails. */
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
      await this.#writeEntry()
      this.#heartbeatWritten(performance.now())
      if (now - this.#actorsAt >= ACTOR_REFRESH_MS) {
        for (const entry of actorEntries(actors)) await store.write([entry])
        // Only now: until all are known, the next beat tells them again.
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

  #heartbeatWritten(now: number): void {
    if (now - this.#beatAt > GAP_MS) this.#backAt = now
    this.#beatAt = now
  }

  /**
   * Whether every living worker has an entry that says what it runs. Not during an outage, in which entries lapse, nor for
   * as long after it as an entry lives: the others come back in their own time.
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
    // A transport that does not answer must not keep the worker from ending: the entry lapses by itself.
    await Promise.race([
      this.#removeEntry().catch(() => undefined),
      new Promise((resolve) => setTimeout(resolve, END_PATIENCE_MS).unref()),
    ])
  }

  /** Takes the entry out, if it is ours. */
  async #removeEntry(): Promise<void> {
    const { store, describe } = this.#options
    // The claim or beat that is under way would write it again.
    await (this.#next ?? this.#beating)
    await WORKERS.change(store, describe().name, (found) =>
      found?.value !== undefined && this.#isOwn(found.value) ? "remove" : "keep",
    )
  }
}

const isThisProcess = ({ host, pid }: WorkerDescription): boolean => host === hostname() && pid === process.pid

const nameTaken = ({ name, host, pid }: WorkerDescription): CallboardError =>
  new CallboardError(
    "invalid-input",
    `name: a live worker is called ${name} already (process ${pid} on ${host}); give this one another name`,
    { field: "name" },
  )
