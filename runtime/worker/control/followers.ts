/**
 * What a worker follows in the store: paused queues and suspensions, which are applied to its queue subscription, the limits of
 * queues, and revocations by header.
 */
import type { StoreEntry } from "../../async/store-entry.ts"
import { isSuspended, PAUSES, SUSPENSIONS } from "../../cluster/pausing.ts"
import { QUEUE_LIMITS } from "../../cluster/queue-limits.ts"
import { REVOCATIONS, type Revocation, revocationOf, revocationOfMessage } from "../../cluster/revocation.ts"
import type { Connection } from "../../connection/connection.ts"
import { StoreMirror } from "../../connection/store-watch.ts"
import { cancelJob } from "../../jobs/commands/cancel.ts"
import type { Log } from "../../log/log.ts"
import type { Task } from "../../protocol/headers.ts"
import { isUndecodable } from "../../protocol/message.ts"
import type { HeldDeliveries } from "../active-delivery.ts"
import type { QueueSubscription } from "../fetch/queue-subscription.ts"

interface QueueFollowerOptions {
  readonly connection: Connection
  /** Name of the worker. */
  readonly name: string
  readonly subscription: QueueSubscription
  /** Called after each change of the subscription. */
  readonly onChange: () => void
  /** Called with how many jobs may run at a time, by queue. */
  readonly onLimits: (limits: ReadonlyMap<string, number>) => void
  readonly log: Log
  readonly signal: AbortSignal
}

/**
 * Starts to follow pauses, suspensions and limits of queues. Resolves once the present ones are known; until then no task may
 * start.
 */
export const followQueues = async (options: QueueFollowerOptions): Promise<void> => {
  const { connection, name, subscription, onChange, onLimits, log, signal } = options
  const mirror = <A>({ prefix }: StoreEntry<A>, change: (names: ReadonlyArray<string>) => void): StoreMirror<true> => {
    const entries = new StoreMirror<true>({
      connection,
      prefix,
      // Only the key is read, so that a pause which a newer version wrote counts as well.
      decode: () => true,
      onChange: () => {
        change([...entries.entries.keys()].map((key) => key.slice(prefix.length)))
        onChange()
      },
      log,
      signal,
    })
    return entries
  }
  const paused = mirror(PAUSES, (names) => subscription.pause(names))
  const suspended = mirror(SUSPENSIONS, (names) => subscription.suspend(isSuspended(names, name)))
  const limits = new StoreMirror({
    connection,
    prefix: QUEUE_LIMITS.prefix,
    decode: (value) => QUEUE_LIMITS.decode(value)?.maxInFlight,
    onChange: (): void =>
      onLimits(new Map([...limits.entries].map(([key, max]) => [key.slice(QUEUE_LIMITS.prefix.length), max]))),
    log,
    signal,
  })
  await Promise.all([paused.ready, suspended.ready, limits.ready])
}

interface RevokerOptions {
  readonly connection: Connection
  /** The deliveries of this worker. */
  readonly held: Pick<HeldDeliveries, "values">
  readonly log: Log
  readonly signal: AbortSignal
}

/** Applies revocations by header: a waiting task that matches is not run, and a running one is cancelled. */
export class Revoker {
  readonly #options: RevokerOptions
  readonly #revocations: StoreMirror<Revocation>

  constructor(options: RevokerOptions) {
    this.#options = options
    const { connection, log, signal } = options
    this.#revocations = new StoreMirror({
      connection,
      prefix: REVOCATIONS.prefix,
      decode: (value) => REVOCATIONS.decode(value),
      onEntry: (_key, revocation) => this.#cancel(revocation),
      log,
      signal,
    })
  }

  /** Resolves once the present revocations are known. Until then no task may start. */
  get ready(): Promise<void> {
    return this.#revocations.ready
  }

  /** Whether a task that is about to start is revoked. */
  isRevoked(task: Task): boolean {
    const { entries } = this.#revocations
    return entries.size > 0 && revocationOf(task, entries.values()) !== undefined
  }

  /** Cancels the running jobs that match. Waiting tasks are checked when they are about to start. */
  #cancel(revocation: Revocation): void {
    const { connection, held, log } = this.#options
    for (const each of held.values()) {
      const { message } = each.delivery
      if (each.phase !== "running" || isUndecodable(message) || each.id === undefined) continue
      if (revocationOfMessage(message, [revocation]) === undefined) continue
      const { id } = each
      cancelJob(connection, id, { terminate: revocation.terminate }).catch((cause: unknown) =>
        log.warn("a revoked job could not be cancelled", { job: id, cause: String(cause) }),
      )
    }
  }
}
