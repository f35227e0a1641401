/**
 * Changes of a job's meta data: merge patches (RFC 7396), where `null` removes a field. Pure.
 */
import { isPlainObject } from "./guards.ts"

/** The meta data of a job, or a change of it. */
export type Meta = Readonly<Record<string, unknown>>

/** The meta data after a change. */
export const mergePatch = (target: Meta, patch: Meta): Meta => {
  // Without a prototype, `__proto__` and `constructor` are keys like any other.
  const merged: Record<string, unknown> = Object.assign(Object.create(null), target)
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name]
    else if (isPlainObject(value)) {
      const before = merged[name]
      merged[name] = mergePatch(isPlainObject(before) ? before : {}, value)
    } else merged[name] = value
  }
  return { ...merged }
}

/** One change that does what two do, the first one before the second. Unlike {@link mergePatch} it keeps what is removed. */
export const bothPatches = (first: Meta, second: Meta): Meta => {
  const both: Record<string, unknown> = Object.assign(Object.create(null), first)
  for (const [name, value] of Object.entries(second)) {
    const before = both[name]
    both[name] = isPlainObject(before) && isPlainObject(value) ? bothPatches(before, value) : value
  }
  return { ...both }
}

/**
 * A change that was stored from outside while a task of the job waits or runs. A worker that does not know of it stores its
 * outcome over another revision: what it stores gets the change as well, so that none is lost.
 */
export interface MetaChange {
  /** Revision of the job before the first of these changes: what the worker that runs the job has reported is about it. */
  readonly about: string
  readonly patch: Meta
}

/** A record of a worker that does not know of a change, with that change. */
export const withMetaChange = <R extends { readonly meta?: Meta }>(record: R, change: MetaChange | undefined): R =>
  change === undefined ? record : { ...record, meta: mergePatch(record.meta ?? {}, change.patch) }
