/**
 * What a worker learns of Celery's other workers: when it starts, the tasks that were revoked while it was away; and their clocks,
 * by which monitors order the events of all workers.
 */
import * as Result from "effect/Result"
import type { Log } from "../log/log.ts"
import { decodeEvents } from "../protocol/celery/event.ts"
import { isMap } from "../protocol/guards.ts"
import type { CeleryMessages } from "../transport/celery.ts"
import { CeleryCommands } from "./commands.ts"
import { type CeleryEvents, EVENT_EXCHANGE } from "./events.ts"

/** How long a worker waits for the others, in milliseconds, as in Celery. */
const REPLIES_MS = 1_000

/** The revoked tasks that a worker knows. */
export interface Revoked {
  /**
   * When each was revoked, the oldest first, in seconds since the machine has started. As in Celery these are the sender's for
   * tasks that another worker has told of, and none is a whole number, which Celery would refuse.
   */
  readonly revoked: ReadonlyMap<string, number>
  /** `at` defaults to now. */
  revoke(ids: ReadonlyArray<string>, at?: number): void
}

export interface MingleOptions {
  readonly messages: CeleryMessages
  readonly events: CeleryEvents
  readonly revoked: Revoked
  /** Name of the worker among Celery's. */
  readonly node: string
  readonly log: Log
  readonly signal: AbortSignal
}

/** Asks the other workers for what they know. It must end before the worker takes tasks. Never rejects. */
export const mingle = async ({ messages, events, revoked, node, log, signal }: MingleOptions): Promise<void> => {
  const asked = new AbortController()
  const end = (): void => asked.abort()
  signal.addEventListener("abort", end, { once: true })
  try {
    const given = { from_node: node, revoked: toldOf(revoked) }
    const replies = await new CeleryCommands(messages, asked.signal).ask("hello", given, null, REPLIES_MS)
    for (const { value } of replies) {
      if (!isMap(value)) continue
      learn(revoked, value["revoked"])
      events.received(value["clock"])
    }
  } catch (cause) {
    log.warn("the other Celery workers could not be asked for revoked tasks", { cause: String(cause) })
  } finally {
    signal.removeEventListener("abort", end)
    end()
  }
}

/** Follows the clocks of the other workers, in the events about them, until the signal fires. */
export const followClocks = ({
  messages,
  events,
  node,
  signal,
}: Omit<MingleOptions, "revoked" | "log">): Promise<void> =>
  messages.listen(
    EVENT_EXCHANGE,
    ({ headers, body }) => {
      const received = headers["hostname"] === node ? Result.succeed([]) : decodeEvents(body)
      if (Result.isSuccess(received)) for (const { clock } of received.success) events.received(clock)
    },
    signal,
    "worker.#",
  )

/** The form in which workers tell each other of revoked tasks. */
export const toldOf = ({ revoked }: Revoked): Readonly<Record<string, readonly [number, string]>> =>
  Object.fromEntries([...revoked].map(([id, at]) => [id, [at, id]]))

/** Notes the revoked tasks of another worker. */
export const learn = (revoked: Revoked, theirs: unknown): void => {
  for (const [id, entry] of isMap(theirs) ? Object.entries(theirs) : []) {
    const at: unknown = Array.isArray(entry) ? entry[0] : entry
    if (revoked.revoked.has(id)) continue
    revoked.revoke([id], typeof at === "number" && Number.isFinite(at) && !Number.isInteger(at) ? at : undefined)
  }
}
