/**
 * Revocations by header: a task that carries a certain header with one of certain values is cancelled when a worker gets
 * it, and at once where it runs. Revocations are entries of the store, so that workers which start later know them, too.
 *
 * As with Celery's `revoke_by_stamped_headers`, stamps of Celery tasks and custom headers count alike. A revocation also
 * holds for tasks that are submitted after it, until it lapses or is lifted.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { StoreEntry } from "../async/store-entry.ts"
import { CallboardError } from "../errors.ts"
import { generateId } from "../id.ts"
import { type Given, parserOf } from "../options/check.ts"
import { milliseconds } from "../options/duration.ts"
import { refuseInput } from "../options/refuse.ts"
import { parseTask, type Task } from "../protocol/headers.ts"
import type { Message } from "../protocol/message.ts"
import { formatTime } from "../protocol/time.ts"
import { untilHeard } from "../transport/job-store/watch-store.ts"
import type { Store } from "../transport/store.ts"

/** A revocation as it is stored and shown. */
export const Revocation = Schema.Struct({
  id: Schema.String,
  /** Name of the header, or of the stamp. */
  header: Schema.String,
  /**
   * A task is revoked if its header has any of these values. All are text: numbers and booleans are compared as text.
   */
  values: Schema.Array(Schema.String),
  /** Kill the handlers of isolated methods at once, and the process of a worker that a handler blocks. */
  terminate: Schema.Boolean,
  revokedAt: Schema.String,
  /** When the revocation lapses. */
  until: Schema.String,
}).annotate({ identifier: "Revocation" })
export type Revocation = typeof Revocation.Type

const MAX_VALUES = 100
const Text = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255))

/** Which tasks to revoke, and for how long. */
export const RevokeOptions = Schema.Struct({
  header: Text.annotate({ description: "Name of a custom header, or of a Celery stamp" }),
  values: Schema.NonEmptyArray(Schema.Union([Text, Schema.Finite, Schema.Boolean]))
    .check(Schema.isMaxLength(MAX_VALUES))
    .annotate({ description: "Tasks with any of these values are cancelled; compared as text" }),
  terminate: Schema.optionalKey(
    Schema.Boolean.annotate({ description: "Kill the handlers of isolated methods at once" }),
  ),
  ttl: Schema.optionalKey(
    Schema.Union([Schema.Finite, Schema.String]).annotate({
      description: "How long it applies: 1 second to 30 days; the default is 3 hours",
    }),
  ),
}).annotate({ identifier: "Revoke" })
export type RevokeOptions = Given<typeof RevokeOptions.Type>

/** The revocations that hold, by id. */
export const REVOCATIONS = new StoreEntry("revocation/", Revocation)

const DEFAULT_TTL_MS = 3 * 3_600_000
const MAX_TTL_MS = 30 * 86_400_000
/** Most revocations at a time: each is compared with every task that starts. */
const MAX_REVOCATIONS = 1_000

const ttlOf = (ttl: number | string | undefined): number => {
  if (ttl === undefined) return DEFAULT_TTL_MS
  const ms = milliseconds("ttl", ttl)
  return ms >= 1_000 && ms <= MAX_TTL_MS ? ms : refuseInput("ttl", "must be from 1 second to 30 days")
}

/** Checks options that came from outside. Fails with `invalid-input` and `unknown-field`, naming the field. */
export const parseRevoke = parserOf(RevokeOptions, "a revocation", "revocation")

/**
 * Stores a revocation, which holds from now on, and resolves once workers know it. Fails with `invalid-input` and `unknown-field`, naming the field, and with
 * `unsupported` when there are a thousand revocations already.
 */
export const revoke = async (store: Store, options: RevokeOptions): Promise<Revocation> => {
  const { header, values, terminate = false, ttl } = parseRevoke(options)
  const ms = ttlOf(ttl)
  const now = Date.now()
  const revocation: Revocation = {
    id: generateId(now),
    header,
    values: values.map(String),
    terminate,
    revokedAt: formatTime(now),
    until: formatTime(now + ms),
  }
  if ((await REVOCATIONS.names(store, MAX_REVOCATIONS)).length >= MAX_REVOCATIONS) {
    throw new CallboardError("unsupported", `there are already ${MAX_REVOCATIONS} revocations: lift some of them`)
  }
  await store.write([REVOCATIONS.put(revocation.id, revocation, ms)])
  await untilHeard(store)
  return revocation
}

/** The revocations that hold now, oldest first. */
export const listRevocations = async (store: Store): Promise<ReadonlyArray<Revocation>> =>
  (await REVOCATIONS.list(store, MAX_REVOCATIONS)).map(({ value }) => value)

/** Ends a revocation. Jobs that it has cancelled stay cancelled. Fails with `not-found`. */
export const liftRevocation = async (store: Store, id: string): Promise<void> => {
  const found = await REVOCATIONS.get(store, id)
  if (found === undefined) throw new CallboardError("not-found", `there is no revocation ${id}`)
  await store.write([REVOCATIONS.remove(id)])
}

/** The first of these revocations that matches a task. */
export const revocationOf = (
  task: Pick<Task, "stamps" | "custom">,
  among: Iterable<Revocation>,
): Revocation | undefined => {
  for (const revocation of among) {
    const { header, values } = revocation
    const given = [task.stamps, task.custom].flatMap((each) =>
      Object.hasOwn(each, header) ? textsOf(each[header]) : [],
    )
    if (given.some((text) => values.includes(text))) return revocation
  }
  return undefined
}

/** {@link revocationOf} for a message whose headers are not parsed yet. Headers that make no task match nothing. */
export const revocationOfMessage = (message: Message, among: Iterable<Revocation>): Revocation | undefined => {
  const task = parseTask(message)
  return Result.isFailure(task) ? undefined : revocationOf(task.success, among)
}

const textsOf = (value: unknown): ReadonlyArray<string> => {
  if (Array.isArray(value)) return value.flatMap((each: unknown) => (isScalar(each) ? [String(each)] : []))
  return isScalar(value) ? [String(value)] : []
}

const isScalar = (value: unknown): value is string | number | boolean | bigint =>
  typeof value === "string" || typeof value === "number" || typeof value === "boolean" || typeof value === "bigint"
