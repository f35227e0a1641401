/** This worker's entries in the directory: who it is and what it does, for as long as it beats. One live worker per name. */
import { hostname } from "node:os"
import {
  ACTOR_REFRESH_MS,
  type ActorDescription,
  actorEntries,
  HEARTBEAT_MS,
  readWorker,
  WORKER_TTL_MS,
  type WorkerDescription,
  workerEntry,
} from "../../directory.ts"
import { CallboardError } from "../../errors.ts"
import type { Log } from "../../log.ts"
import type { Store } from "../../transport.ts"

const END_PATIENCE_MS = 2_000
/** Between two looks at somebody who has the name: a live one has beaten by the second. */
const LOOK_MS = HEARTBEAT_MS / 4

export interface RegistryOptions {
  readonly store: Store
  readonly log: Log
  readonly actors: ReadonlyArray<ActorDescription>
  /** Asked for at each beat. */
  readonly describe: () => WorkerDescription
}

export class Registry {
  readonly #options: RegistryOptions
  // By a clock that nobody sets back: entries that are not told again are forgotten.
  #actorsAt = Number.NEGATIVE_INFINITY
  #timer: ReturnType<typeof setInterval> | undefined
  #ended = false

  constructor(options: RegistryOptions) {
    this.#options = options
  }

  /**
   * Takes the name and keeps it. The entry of a worker that died is waited out, or taken over where that can be seen.
   * Fails with `CallboardError` `invalid-input` when a live worker has the name. A transport that cannot be asked now
   * does not keep a worker from starting.
   */
  async begin(): Promise<void> {
    try {
      await this.#claim()
    } catch (cause) {
      if (cause instanceof CallboardError) throw cause
      this.#options.log.debug("the worker could not be registered yet", { cause: String(cause) })
    }
    this.#timer = setInterval(() => void this.beat(), HEARTBEAT_MS)
    await this.beat()
  }

  async #claim(): Promise<void> {
    const { store, describe } = this.#options
    let first: string | undefined
    for (const deadline = performance.now() + 2 * WORKER_TTL_MS; performance.now() < deadline; ) {
      const entry = workerEntry(describe())
      if ((await store.write([{ ...entry, expect: "absent" }])) === "written") return
      const found = await store.get(entry.key)
      if (found === undefined) continue
      const other = readWorker(found.value)
      if (other === undefined || isDead(other)) {
        if ((await store.write([{ ...entry, expect: { revision: found.revision } }])) === "written") return
        continue
      }
      first ??= other.heartbeatAt
      if (other.heartbeatAt !== first || isHere(other)) throw nameTaken(other)
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
  }

  /** Says at once how the worker stands. Never fails. */
  async beat(): Promise<void> {
    if (this.#ended) return
    const { store, describe, actors, log } = this.#options
    const now = performance.now()
    try {
      await store.write([workerEntry(describe())])
      if (now - this.#actorsAt >= ACTOR_REFRESH_MS) {
        for (const entry of actorEntries(actors)) await store.write([entry])
        // Only now: until all are known, the next beat tells them again.
        this.#actorsAt = now
      }
    } catch (cause) {
      log.debug("the heartbeat could not be written", { cause: cause instanceof Error ? cause.message : String(cause) })
    }
  }

  async end(): Promise<void> {
    const { store, describe } = this.#options
    this.#ended = true
    clearInterval(this.#timer)
    // A transport that does not answer must not keep the worker from ending: the entry lapses by itself.
    await Promise.race([
      store.write([{ key: workerEntry(describe()).key }]).catch(() => undefined),
      new Promise((resolve) => setTimeout(resolve, END_PATIENCE_MS).unref()),
    ])
  }
}

const isHere = ({ host, pid }: WorkerDescription): boolean => host === hostname() && pid === process.pid

/** Whether a worker is known to be dead: of another machine nobody here can tell. */
const isDead = ({ host, pid }: WorkerDescription): boolean => {
  if (host !== hostname()) return false
  try {
    process.kill(pid, 0)
    return false
  } catch (cause) {
    return cause instanceof Error && "code" in cause && cause.code === "ESRCH"
  }
}

const nameTaken = ({ name, host, pid }: WorkerDescription): CallboardError =>
  new CallboardError(
    "invalid-input",
    `name: a live worker is called ${name} already (process ${pid} on ${host}); give this one another name`,
    { field: "name" },
  )
