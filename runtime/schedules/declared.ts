/** Schedules that actors' methods declare: made when a worker starts, and taken away when the method does not say so any more. */
import { allEntries } from "../async/store-entry.ts"
import type { Log } from "../log/log.ts"
import type { Store } from "../transport/store.ts"
import { firstDue, newEntry, SCHEDULES, type ScheduleEntry, withWake } from "./entry.ts"
import { parseScheduleFields, rulesOf, type ScheduleDeclaration } from "./fields.ts"

/** By the names of the actors that a worker serves: the methods with a schedule. */
export type Declared = ReadonlyMap<string, ReadonlyMap<string, ScheduleDeclaration>>

/** Several workers may do this at once: the first one writes. Fails as the store does. */
export const declareAll = async (store: Store, declared: Declared, now: number, log: Log): Promise<void> => {
  for (const [actor, methods] of declared) {
    const names = new Set([...methods.keys()].map((method) => `${actor}.${method}`))
    for (const [method, declaration] of methods) await declare(store, actor, method, declaration, now, log)
    await removeOthers(store, actor, names)
  }
}

const declare = async (
  store: Store,
  actor: string,
  method: string,
  declaration: ScheduleDeclaration,
  now: number,
  log: Log,
): Promise<void> => {
  const name = `${actor}.${method}`
  const as = JSON.stringify(declaration)
  const fields = parseScheduleFields({ ...declaration, task: actor, meth: method })
  const rules = rulesOf(fields, now)
  await SCHEDULES.change(store, name, (found) => {
    if (found === undefined) return { value: newEntry(name, fields, rules, now, { actor, as }) }
    const entry = found.value
    if (entry === undefined || entry.declared?.as === as) return "keep"
    if (entry.declared === undefined) {
      log.warn(`there is a schedule ${name} already, which the method does not declare: it is left as it is`)
      return "keep"
    }
    // An operator's changes hold until the declaration itself changes.
    const due = firstDue(rules, now)
    const changed: ScheduleEntry = { ...entry, fields, rules, due, declared: { actor, as }, changedAt: now }
    return { value: withWake(name, changed) }
  })
}

const removeOthers = async (store: Store, actor: string, names: ReadonlySet<string>): Promise<void> => {
  for await (const { key, value, revision } of allEntries(store, SCHEDULES.key(`${actor}.`))) {
    const entry = SCHEDULES.decode(value)
    if (entry?.declared?.actor !== actor || names.has(key.slice(SCHEDULES.prefix.length))) continue
    // What it has posted goes on; a posting that is in the entry now is posted first, by the next worker that starts.
    if (entry.pending === undefined) await store.write([{ key, value: null, expect: revision }])
  }
}
