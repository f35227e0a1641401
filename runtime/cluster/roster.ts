/**
 * The roster: a note of each worker that has begun, and has neither ended nor been seen to die. Unlike the entry of a living
 * worker it has no time to live: after an outage of any length it tells which workers may still be running jobs, although none
 * of them is registered yet.
 */
import * as Schema from "effect/Schema"
import { StoreEntry } from "../async/store-entry.ts"
import { compact } from "../protocol/compact.ts"
import type { Store } from "../transport/store.ts"
import { listWorkers, MAX_RUNNING, type WorkerDescription } from "./directory.ts"
import { isDead, type WorkerProcess } from "./worker-process.ts"

const RosterNote = Schema.Struct({
  name: Schema.String,
  pid: Schema.Int,
  pidSpace: Schema.optionalKey(Schema.String),
})

/** By instance of the worker. */
const ROSTER = new StoreEntry("roster/", RosterNote)

const LIMIT = 1_000

/** Writes the note of a worker. Its own entry must be there: a worker without one counts as missing. */
export const joinRoster = async (store: Store, { name, pid, pidSpace, instance }: WorkerDescription): Promise<void> => {
  if (instance === undefined) return
  await store.write([ROSTER.put(instance, { name, pid, ...compact({ pidSpace }) })])
}

/** Removes the note of a worker that ends. */
export const leaveRoster = async (store: Store, { instance }: WorkerProcess): Promise<void> => {
  if (instance !== undefined) await store.write([ROSTER.remove(instance)])
}

interface Members {
  /** The workers that are registered, without those that are known to be dead. */
  readonly present: ReadonlyArray<WorkerDescription>
  /** Instances of the workers that are not registered, and of which nothing shows that they are dead. */
  readonly missing: ReadonlyArray<string>
}

/** How long the members are used again: after an outage many tasks are delivered again at once. */
const FRESH_MS = 250

const reads = new WeakMap<Store, { readonly at: number; readonly members: Promise<Members> }>()

/** The members, as they were a quarter of a second ago at most. Fails as the store does. */
export const membersOf = (store: Store): Promise<Members> => {
  const at = performance.now()
  const last = reads.get(store)
  if (last !== undefined && at - last.at <= FRESH_MS) return last.members
  const members = readMembers(store)
  reads.set(store, { at, members })
  return members
}

const readMembers = async (store: Store): Promise<Members> => {
  // Notes are read first: an entry is written before its note.
  const notes = await ROSTER.list(store, LIMIT)
  const workers = await listWorkers(store)
  const registered = new Set(workers.map(({ instance }) => instance))
  const missing = notes.flatMap(({ name, value }) =>
    registered.has(name) || isDead({ ...value, instance: name }) ? [] : [name],
  )
  return {
    present: workers.filter((worker) => !isDead(worker)),
    missing: missing.length === 0 ? missing : await stillNoted(store, missing),
  }
}

/** A worker that ended between the two reads has removed its note before its entry, so it is not missing. */
const stillNoted = async (store: Store, instances: ReadonlyArray<string>): Promise<ReadonlyArray<string>> => {
  const noted = new Set((await ROSTER.list(store, LIMIT)).map(({ name }) => name))
  return instances.filter((instance) => noted.has(instance))
}

/**
 * Whether a worker may run this job although its record does not say so: one that lists it, or more than it lists, or one that
 * is missing. Fails as the store does.
 */
export const mayRun = async (store: Store, id: string): Promise<boolean> => {
  const { present, missing } = await membersOf(store)
  return missing.length > 0 || present.some(({ running }) => running.includes(id) || running.length >= MAX_RUNNING)
}

/**
 * Strikes off the workers that are dead, and, where `all`, those that are missing: they had their time to come back. Fails as
 * the store does.
 */
export const strikeOff = async (store: Store, all: boolean): Promise<void> => {
  const notes = await store.list({ prefix: ROSTER.prefix, limit: LIMIT })
  if (notes.length === 0) return
  const registered = new Set((await listWorkers(store)).map(({ instance }) => instance))
  for (const { key, value, revision } of notes) {
    const instance = key.slice(ROSTER.prefix.length)
    const note = ROSTER.decode(value)
    const isGone = note !== undefined && isDead({ ...note, instance })
    // A worker that comes back in this moment writes its note anew.
    if (!registered.has(instance) && (all || isGone)) await store.write([{ key, value: null, expect: revision }])
  }
}
