/** Routes about the limits of methods: which workers hold permits, and what waits for one. */

import type { Client } from "../client/client.ts"
import { listWorkers } from "../cluster/directory.ts"
import { readHeldTasks } from "../cluster/held-tasks.ts"
import { CallboardError } from "../errors.ts"
import { HIDDEN, hidesKey } from "../log/redaction.ts"
import { DEFAULT_PAGE } from "../routes/bounds.ts"
import { LIMIT_ROUTES, MAX_KEYS } from "../routes/limits.ts"
import type { LimitKeys, LimitList } from "../statistics/schema.ts"
import type { Store } from "../transport/store.ts"
import { decodeState, holderOf, LIMIT_PREFIX, type LimitState, limitKey } from "../worker/limits/permits.ts"
import { withReadDeadline } from "./limits.ts"
import { type Route, served } from "./route.ts"

/** Those of the living workers. */
const holdersOf = async (store: Store): Promise<ReadonlySet<string>> =>
  new Set((await listWorkers(store)).map(holderOf))

/** `waiting`: tasks that the limit holds up. */
const sumOf = (states: ReadonlyArray<LimitState>, waiting: number, holders: ReadonlySet<string>, now: number) => {
  let [running, since] = [0, Number.POSITIVE_INFINITY]
  for (const { held, asking } of states) {
    for (const [id, count] of held) if (holders.has(id)) running += count
    for (const [id, request] of asking) if (holders.has(id)) since = Math.min(since, request.since)
  }
  return { running, held: waiting, ...(waiting > 0 && since < now ? { oldest: (now - since) / 1_000 } : {}) }
}

/** The limits of the methods that live workers serve. */
const limitsOf = async (client: Client): Promise<typeof LimitList.Type> => {
  const { store } = client.connection
  const [actors, entries, waiting, holders, now] = await Promise.all([
    client.actors(),
    store.list({ prefix: LIMIT_PREFIX, limit: MAX_KEYS }),
    readHeldTasks(store, MAX_KEYS),
    holdersOf(store),
    store.now(),
  ])
  const states = entries.map(({ key, value }) => ({ key, state: decodeState(value) }))
  const limits = actors.flatMap(({ name, methods }) =>
    methods.flatMap(({ name: method, limit }) => {
      if (limit === undefined) return []
      const task = `${name}.${method}`
      const isOwn = (key: string): boolean => key.startsWith(limitKey(task, ""))
      const own = states.filter(({ key }) => isOwn(key))
      const sum = sumOf(
        own.map(({ state }) => state),
        [...waiting].reduce((all, [key, count]) => (isOwn(key) ? all + count : all), 0),
        holders,
        now,
      )
      return [{ task, ...limit, ...sum, ...(limit.keyed ? { keys: { total: own.length } } : {}) }]
    }),
  )
  return {
    limits: limits.sort((a, b) => b.held - a.held || (a.task < b.task ? -1 : 1)),
    more: entries.length === MAX_KEYS,
  }
}

/** Whether the key of a limit is taken from what its method hides. One that no worker describes might be. */
const isHidden = async (client: Client, task: string): Promise<boolean> => {
  const methods = (await client.actors()).flatMap(({ name, methods: own }) =>
    own.filter((method) => `${name}.${method.name}` === task),
  )
  return methods.length === 0 || methods.some(({ redact, limitKey }) => hidesKey(redact, limitKey))
}

const keysOf = async (
  client: Client,
  task: string,
  limit: number,
  after: string | undefined,
): Promise<typeof LimitKeys.Type> => {
  const prefix = limitKey(task, "")
  const { store } = client.connection
  const [hidden, waiting, entries, holders, now] = await Promise.all([
    isHidden(client, task),
    readHeldTasks(store, MAX_KEYS),
    store.list({ prefix, limit: limit + 1, ...(after === undefined ? {} : { after: prefix + after }) }),
    holdersOf(store),
    store.now(),
  ])
  const shown = entries.slice(0, limit)
  const last = shown.at(-1)
  return {
    keys: shown.map(({ key, value }) => {
      const state = decodeState(value)
      const { tat } = state
      return {
        key: hidden ? HIDDEN : key.slice(prefix.length),
        ...sumOf([state], waiting.get(key) ?? 0, holders, now),
        ...(tat !== undefined && tat > now && tat < now + 8.64e13 ? { nextFree: new Date(tat).toISOString() } : {}),
      }
    }),
    // The cursor is a key: where these are hidden there is one page.
    ...(entries.length > limit && last !== undefined && !hidden ? { next: last.key.slice(prefix.length) } : {}),
  }
}

export const limitRoutes: ReadonlyArray<Route> = served(LIMIT_ROUTES, {
  "GET /v1/limits": async ({ context }) => withReadDeadline(limitsOf(context.client)),
  "GET /v1/limits/{id}/keys": async ({ context, id, query: { limit = DEFAULT_PAGE, cursor } }) => {
    if (id.includes("/")) throw new CallboardError("not-found", "no task has a name with a slash", { field: "id" })
    return withReadDeadline(keysOf(context.client, id, limit, cursor))
  },
})
