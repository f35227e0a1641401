/**
 * Groups: jobs that were submitted with the same `group`. A group is there as long as one of its jobs is kept; the list of groups
 * is an entry of the store for each, which is removed when it is found without jobs.
 */
import * as Schema from "effect/Schema"
import { StoreEntry } from "../async/store-entry.ts"
import type { Connection } from "../connection/connection.ts"
import { CallboardError } from "../errors.ts"
import { compact } from "../protocol/compact.ts"
import { isId } from "../protocol/name.ts"
import { isTerminal, STATES, type State } from "../protocol/state.ts"
import type { Found } from "../transport/job-store/transport.ts"
import type { Store } from "../transport/store.ts"
import { cancelAlone } from "./commands/cancel.ts"
import { type BulkReport, decideAll } from "./commands/decide.ts"
import { idFrom, keyPart } from "./dependencies/edges.ts"
import type { Group } from "./lists.ts"
import { judged } from "./tracking/finding.ts"

/** A group, with the number of its jobs in each state that some of them are in. */
export interface GroupView extends Omit<Group, "states"> {
  readonly states: Readonly<Partial<Record<State, number>>>
}

/** When a job of the group was last submitted, in milliseconds since the epoch. */
const GROUPS = new StoreEntry("group/", Schema.Struct({ at: Schema.Finite }))

/** A group is noted again after this long only, so that many submissions to one cost one write. */
const NOTED_MS = 60_000
/** A group without jobs that was noted this long ago is removed: the jobs of a new one may be on their way. */
const NEW_MS = 600_000
/** Groups that a process remembers to have noted. */
const MAX_NOTED = 1_000

/** Notes the groups of the jobs that a process submits. */
export class GroupNotes {
  readonly #store: Store
  readonly #noted = new Map<string, number>()

  constructor(store: Store) {
    this.#store = store
  }

  /**
   * Notes groups in the list. To be called before their jobs are submitted, so that no group with jobs is missing. Fails as the
   * store does.
   */
  async note(groups: ReadonlySet<string>, now: number): Promise<void> {
    const fresh = [...groups].filter((group) => now - (this.#noted.get(group) ?? 0) >= NOTED_MS)
    await Promise.all(fresh.map((group) => this.#store.write([GROUPS.put(keyPart(group), { at: now })])))
    if (this.#noted.size + fresh.length > MAX_NOTED) this.#noted.clear()
    for (const group of fresh) this.#noted.set(group, now)
  }
}

const PAGE = 1_000

const noSuchGroup = (id: string): CallboardError => new CallboardError("not-found", `there is no group ${id}`, { id })

/** Counts the jobs of a group. Fails with `not-found` where no job of it is kept, and as the transport does. */
export const findGroup = async (connection: Connection, id: string): Promise<GroupView> => {
  const counts = new Map<State, number>()
  if (!isId(id)) throw noSuchGroup(id)
  for (let after: string | undefined, more = true; more; more = after !== undefined) {
    const page = await connection.jobs.list({ group: id, limit: PAGE, ...compact({ after }) })
    for (const { state } of await judged(connection, page.records)) counts.set(state, (counts.get(state) ?? 0) + 1)
    after = page.next
  }
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0)
  if (total === 0) throw noSuchGroup(id)
  const states = Object.fromEntries(STATES.flatMap((state) => (counts.has(state) ? [[state, counts.get(state)]] : [])))
  return { id, total, states }
}

/** Most groups that one call lists. */
export const MAX_GROUPS = 1_000

/** Names of groups with jobs, in the order of their names; `next` is where the next page begins. */
export const listGroups = async (
  { store, jobs }: Connection,
  { limit = 100, after }: { readonly limit?: number | undefined; readonly after?: string | undefined } = {},
): Promise<{ readonly groups: ReadonlyArray<string>; readonly next?: string }> => {
  if (!(Number.isInteger(limit) && limit >= 1 && limit <= MAX_GROUPS)) {
    throw new CallboardError("invalid-input", `limit: must be a whole number from 1 to ${MAX_GROUPS}`, {
      field: "limit",
    })
  }
  const from = after === undefined ? {} : { after: GROUPS.key(keyPart(after)) }
  const entries = await store.list({ prefix: GROUPS.prefix, limit, ...from })
  const groups: Array<string> = []
  const now = Date.now()
  for (const { key, value, revision } of entries) {
    const group = idFrom(key.slice(GROUPS.prefix.length))
    if (await hasJobs({ jobs }, group)) groups.push(group)
    else if (now - (GROUPS.decode(value)?.at ?? now) > NEW_MS && !(await isToCome({ jobs }, group)))
      await store.write([{ key, value: null, expect: revision }])
  }
  const last = entries.at(-1)
  return {
    groups,
    ...(entries.length < limit || last === undefined ? {} : { next: idFrom(last.key.slice(GROUPS.prefix.length)) }),
  }
}

const hasJobs = async ({ jobs }: Pick<Connection, "jobs">, group: string): Promise<boolean> => {
  for (let after: string | undefined, more = true; more; more = after !== undefined) {
    const page = await jobs.list({ group, limit: 1, ...compact({ after }) })
    if (page.records.length > 0) return true
    after = page.next
  }
  return false
}

/**
 * Whether members of a group are still to be submitted: those of a chord in a chain are, once the link before has succeeded. Until
 * then the body of the chord waits.
 */
const isToCome = async ({ jobs }: Pick<Connection, "jobs">, group: string): Promise<boolean> => {
  const body = await jobs.find(group)
  return body !== undefined && isWaitingBody(body)
}

const isWaitingBody = ({ record: { state, chord } }: Found): boolean => state === "deferred" && chord?.waiting === true

const OPEN = STATES.filter((state) => !isTerminal(state))

/**
 * Cancels the jobs of a group that have not ended, up to 1,000 per call and for about `budget` milliseconds, and first the
 * bodies that wait for them. `partial` in the report: there may be more. Fails with `not-found`.
 */
export const cancelGroup = async (
  connection: Connection,
  id: string,
  budget = Number.POSITIVE_INFINITY,
): Promise<BulkReport> => {
  if (!isId(id) || !(await hasJobs(connection, id))) throw noSuchGroup(id)
  const query = { group: id, states: OPEN, limit: PAGE, budget }
  const { records } = await connection.jobs.list(query)
  for (const body of new Set(records.flatMap(({ member }) => member?.of ?? []))) await cancelBody(connection, body)
  return decideAll(connection, query, (_, member, check) => cancelAlone(connection, member, {}, check))
}

/** Cancels the body of a chord. It is cancelled before its members: else it would fail with the last of them, and run its errbacks. */
const cancelBody = async (connection: Connection, id: string): Promise<void> => {
  const body = await connection.jobs.find(id)
  if (body === undefined || !isWaitingBody(body)) return
  await cancelAlone(connection, id).catch((cause: unknown) => {
    // The body has ended in between.
    if (!(cause instanceof CallboardError)) throw cause
  })
}
