/** Schedules that actors' methods declare: made when a worker starts, and taken away when the method does not say so any more. */
import type { Log } from "../log/log.ts"
import type { Store } from "../transport/store.ts"
import { changedTimes, newEntry, SCHEDULES, type ScheduleEntry, withWake } from "./entry.ts"
import { hasSameTimes, parseScheduleFields, rulesOf, type ScheduleDeclaration } from "./fields.ts"

/** By the names of the actors that a worker serves: the methods with a schedule. */
export type Declared = ReadonlyMap<string, ReadonlyMap<string, ScheduleDeclaration>>

/**
 * `known`: the names of the schedules that there are. Several workers may do this at once: the first one writes. Fails as the
 * store does.
 */
export const declareAll = async (
  store: Store,
  declared: Declared,
  known: ReadonlySet<string>,
  now: number,
  log: Log,
): Promise<void> => {
  for (const [actor, methods] of declared) {
    for (const [method, declaration] of methods) await declare(store, actor, method, declaration, now, log)
    for (const name of known) {
      if (name.startsWith(`${actor}.`) && !methods.has(name.slice(actor.length + 1)))
        await removeDeclared(store, actor, name)
    }
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
    // An operator's changes hold until the declaration itself changes. Where its times are the same, an interval goes on.
    const changed: ScheduleEntry = hasSameTimes(fields, entry.fields)
      ? { ...entry, fields, rules: { ...rules, timing: entry.rules.timing }, changedAt: now }
      : changedTimes(name, entry, { fields, rules }, now)
    return { value: withWake(name, { ...changed, declared: { actor, as } }) }
  })
}

/** Removes a schedule, if this actor has declared it. What it has posted goes on. */
const removeDeclared = async (store: Store, actor: string, name: string): Promise<void> => {
  await SCHEDULES.change(store, name, (found) => {
    const entry = found?.value
    // A posting that is in the entry now is published first; the next worker that starts removes it.
    return entry?.declared?.actor === actor && entry.pending === undefined ? "remove" : "keep"
  })
}
