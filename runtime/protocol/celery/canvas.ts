/**
 * Takes apart signatures of Celery that stand for several tasks: a group becomes its members, a chain its first task with the
 * others as its rest. A group before another link of a chain is a chord. A chord is refused unless Celery's result back end counts
 * its members, since its wire form does not say which jobs are to be counted.
 */
import * as Result from "effect/Result"
import { parseSignatures, type Signature } from "./signature.ts"

type Signatures = ReadonlyArray<Signature>

/** The follow-ups of a task, all of them signatures of plain tasks. `chain` is in the order of the wire: the next link is last. */
export interface PlainFollowUps {
  readonly callbacks: Signatures | null
  readonly errbacks: Signatures | null
  readonly chain: Signatures | null
}

/**
 * Most tasks that one signature may stand for: all are stored with the outcome that they follow. The brokers of Celery take larger
 * messages than other transports.
 */
const maxTasks = (countsChords: boolean): number => (countsChords ? 10_000 : 1_000)

const isPlain = ({ subtask_type }: Signature): boolean => subtask_type === null || subtask_type === "task"

/**
 * Fails with the reason why a signature cannot be taken apart. `countsChords`: the members of a chord are counted by the back end of
 * Celery. Then only what follows next is taken apart, since a worker of Celery may run what comes after.
 */
export const plainFollowUps = (given: PlainFollowUps, countsChords = false): Result.Result<PlainFollowUps, string> => {
  const lists = [given.callbacks, given.errbacks, given.chain]
  if (lists.every((list) => list === null || list.every(isPlain))) {
    if (!countsChords || given.callbacks === null || given.chain === null) return Result.succeed(given)
    return Result.succeed({ ...given, callbacks: otherThan(given.chain.slice(-1), given.callbacks) })
  }
  try {
    const callbacks = given.callbacks?.flatMap((each, at) => tasksOf(each, `callbacks[${at}]`, countsChords)) ?? null
    const errbacks = given.errbacks?.flatMap((each, at) => tasksOf(each, `errbacks[${at}]`, countsChords)) ?? null
    const steps = (given.chain ?? []).toReversed().flatMap((each, at) => stepsOf(each, `chain[${at}]`, countsChords))
    const [next] = steps
    if (countsChords) {
      if (next === undefined || isPlain(next)) {
        const others = callbacks === null ? null : otherThan(steps.slice(0, 1), callbacks)
        return Result.succeed({ callbacks: others, errbacks, chain: given.chain === null ? null : steps.toReversed() })
      }
      const tasks = chainTasks(steps, "chain")
      return Result.succeed({ callbacks: [...otherThan(tasks, callbacks ?? []), ...tasks], errbacks, chain: [] })
    }
    const last = steps.at(-1)
    if (steps.slice(0, -1).some((each) => !isPlain(each)))
      throw new Refused("chain: a group before another link is a chord, which is not supported here")
    if (last === undefined || isPlain(last)) {
      return Result.succeed({ callbacks, errbacks, chain: given.chain === null ? null : steps.toReversed() })
    }
    const members = tasksOf(last, "chain", false)
    const before = steps.slice(0, -1)
    const end = before.pop()
    if (end === undefined) return Result.succeed({ callbacks: [...(callbacks ?? []), ...members], errbacks, chain: [] })
    const linked = {
      ...end,
      options: { ...end.options, link: [...listOf(end.options.link, "options.link"), ...members] },
    }
    return Result.succeed({ callbacks, errbacks, chain: [...before, linked].toReversed() })
  } catch (thrown) {
    if (thrown instanceof Refused) return Result.fail(thrown.message)
    throw thrown
  }
}

/**
 * The callbacks that are none of these tasks, by their ids. A worker of Celery adds a chain to the message of a task that a client
 * of protocol 1 has given the next link of the same chain as a callback.
 */
const otherThan = (tasks: Signatures, callbacks: Signatures): Signatures => {
  const ids = new Set(tasks.map(({ options }) => options.task_id).filter((id) => typeof id === "string"))
  return callbacks.filter(({ options: { task_id: id } }) => typeof id !== "string" || !ids.has(id))
}

class Refused extends Error {}

const listOf = (value: unknown, at: string): Signatures => {
  const parsed = parseSignatures(value, at)
  if (Result.isFailure(parsed)) throw new Refused(parsed.failure.message)
  return parsed.success ?? []
}

/** The tasks in `kwargs.tasks` of a group or a chain. There may be none: groups are made of what a program has found. */
const partsOf = (signature: Signature, at: string, countsChords: boolean): Signatures => {
  const parts = listOf(signature.kwargs.tasks, `${at}.kwargs.tasks`)
  const max = maxTasks(countsChords)
  if (parts.length > max)
    throw new Refused(`${at}: a ${signature.subtask_type} has at most ${max} tasks, not ${parts.length}`)
  return parts
}

/** The plain tasks that are submitted for a signature. */
const tasksOf = (signature: Signature, at: string, countsChords: boolean): Signatures => {
  if (isPlain(signature)) return [signature]
  if (countsChords && signature.subtask_type === "chord") return membersOf(signature, [], at)
  if (signature.subtask_type === "group") {
    const { task_id: group } = signature.options
    const tasks = partsOf(signature, at, countsChords).flatMap((each, place) =>
      tasksOf(each, `${at}[${place}]`, countsChords),
    )
    if (typeof group !== "string" || group === "") return tasks
    return tasks.map((task, index) => ({
      ...task,
      options: { group_id: group, group_index: index, ...task.options },
    }))
  }
  if (countsChords) return chainTasks(stepsOf(signature, at, true), at)
  const [first, ...rest] = stepsOf(signature, at, false)
  if (first === undefined) return []
  if (!isPlain(first))
    throw new Refused(`${at}: a chain that starts with a group is a chord, which is not supported here`)
  if (!rest.every(isPlain)) throw new Refused(`${at}: a chain with a group in it is not supported here`)
  return [withRest(first, rest, at)]
}

/** The first task of a chain, with the others as the rest. */
const withRest = (first: Signature, rest: Signatures, at: string): Signature => {
  // Protocol 1 names the links of a chain twice: each link also has the next one as its callback.
  if (rest.length === 0 || isLinked(first, rest[0])) return first
  const before = listOf(first.options.chain, `${at}.options.chain`)
  return { ...first, options: { ...first.options, chain: [...before, ...rest.toReversed()] } }
}

/** What is submitted for a chain whose links may be groups and chords: a group before another link is a chord. */
const chainTasks = (steps: Signatures, at: string): Signatures => {
  const [first, ...rest] = steps
  if (first === undefined) return []
  if (isPlain(first)) return [withRest(first, rest, at)]
  const [body, ...others] = rest
  if (first.subtask_type === "chord") return membersOf(first, rest, at)
  if (body === undefined) return tasksOf(first, at, true)
  const chord = { ...first, subtask_type: "chord", kwargs: { header: first, body }, options: {} }
  return membersOf(chord, others, at)
}

/** The members of a chord, each with its body, which is followed by the rest of a chain. */
const membersOf = (chord: Signature, rest: Signatures, at: string): Signatures => {
  const { header, body: given } = chord.kwargs
  const [body] = listOf(given, `${at}.kwargs.body`)
  const group = Array.isArray(header) ? undefined : listOf(header, `${at}.kwargs.header`)[0]
  const id = group?.options.task_id ?? body?.options.group_id
  const elements = group === undefined ? listOf(header, `${at}.kwargs.header`) : partsOf(group, at, true)
  const tasks = elements.flatMap((each, place) => tasksOf(each, `${at}[${place}]`, true))
  if (body !== undefined && tasks.length === 0) return chainTasks([body, ...rest], at).map(withoutResults)
  if (body === undefined || typeof id !== "string" || id === "")
    throw new Refused(`${at}: a chord needs a body, and the id of its group`)
  if (tasks.length > maxTasks(true))
    throw new Refused(`${at}: a chord has at most ${maxTasks(true)} members, not ${tasks.length}`)
  const whole: Signature =
    rest.length === 0
      ? body
      : { ...CHAIN, kwargs: { tasks: [body, ...rest] }, options: { task_id: rest.at(-1)?.options.task_id } }
  const counted = { ...whole, chord_size: tasks.length }
  return tasks.map((task, index) => withChord(task, { group_id: id, group_index: index, chord: counted }))
}

/** The body of a chord without members: it gets an empty list, and not the result of the task before. */
const withoutResults = (task: Signature): Signature =>
  task.immutable ? task : { ...task, args: [[], ...task.args], immutable: true }

const CHAIN: Signature = {
  task: "celery.chain",
  args: [],
  kwargs: {},
  options: {},
  subtask_type: "chain",
  immutable: false,
}

/** The task that ends a member of a chord counts for it: the last link of a chain. */
const withChord = (task: Signature, options: Signature["options"]): Signature => {
  const [last, ...others] = listOf(task.options.chain, "options.chain")
  if (last === undefined) return { ...task, options: { ...task.options, ...options } }
  const counting = { ...last, options: { ...last.options, ...options } }
  return { ...task, options: { ...task.options, chain: [counting, ...others] } }
}

const isLinked = ({ options }: Signature, next: Signature | undefined): boolean => {
  const id = next?.options.task_id
  return typeof id === "string" && listOf(options.link, "options.link").some((each) => each.options.task_id === id)
}

/** The links of a chain in the order in which they run; another signature is one link. */
const stepsOf = (signature: Signature, at: string, countsChords: boolean): Signatures => {
  if (signature.subtask_type === "chain") {
    return partsOf(signature, at, countsChords).flatMap((each, place) => stepsOf(each, `${at}[${place}]`, countsChords))
  }
  if (isPlain(signature) || signature.subtask_type === "group") return [signature]
  if (countsChords && signature.subtask_type === "chord") return [signature]
  throw new Refused(`${at}: a ${signature.subtask_type} is not supported here`)
}
