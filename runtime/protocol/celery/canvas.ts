/**
 * Signatures of Celery that stand for several tasks: a group is its members, a chain its first task with the others as the rest. A
 * group at the end of a chain follows the task before it. A chord, and a group before another link, which is one, are refused:
 * their wire form does not say which jobs are to be counted.
 */
import * as Result from "effect/Result"
import { parseSignatures, type Signature } from "./signature.ts"

type Signatures = ReadonlyArray<Signature>

/** The signatures of plain tasks for those that a task carries. `chain` in the order of the wire: the next one last. */
export interface PlainFollowUps {
  readonly callbacks: Signatures | null
  readonly errbacks: Signatures | null
  readonly chain: Signatures | null
}

/** Most tasks that one signature may stand for: all are stored with the outcome that they follow. */
const MOST_TASKS = 1_000

const isPlain = ({ subtask_type }: Signature): boolean => subtask_type === null || subtask_type === "task"

/** Fails with the reason why a signature cannot be taken apart. */
export const plainFollowUps = (given: PlainFollowUps): Result.Result<PlainFollowUps, string> => {
  const lists = [given.callbacks, given.errbacks, given.chain]
  if (lists.every((list) => list === null || list.every(isPlain))) return Result.succeed(given)
  try {
    const callbacks = given.callbacks?.flatMap((each, at) => tasksOf(each, `callbacks[${at}]`)) ?? null
    const errbacks = given.errbacks?.flatMap((each, at) => tasksOf(each, `errbacks[${at}]`)) ?? null
    const steps = (given.chain ?? []).toReversed().flatMap((each, at) => stepsOf(each, `chain[${at}]`))
    const last = steps.at(-1)
    if (steps.slice(0, -1).some((each) => !isPlain(each)))
      throw new Refused("chain: a group before another link is a chord, which is not supported here")
    if (last === undefined || isPlain(last)) {
      return Result.succeed({ callbacks, errbacks, chain: given.chain === null ? null : steps.toReversed() })
    }
    const members = tasksOf(last, "chain")
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

class Refused extends Error {}

const listOf = (value: unknown, at: string): Signatures => {
  const parsed = parseSignatures(value, at)
  if (Result.isFailure(parsed)) throw new Refused(parsed.failure.message)
  return parsed.success ?? []
}

/** The tasks in `kwargs.tasks` of a group or a chain. */
const partsOf = (signature: Signature, at: string): Signatures => {
  const parts = listOf(signature.kwargs.tasks, `${at}.kwargs.tasks`)
  if (parts.length === 0 || parts.length > MOST_TASKS) {
    throw new Refused(`${at}: a ${signature.subtask_type} has 1 to ${MOST_TASKS} tasks, not ${parts.length}`)
  }
  return parts
}

/** What is submitted where this signature is. */
const tasksOf = (signature: Signature, at: string): Signatures => {
  if (isPlain(signature)) return [signature]
  if (signature.subtask_type === "group") {
    const { task_id: group } = signature.options
    const tasks = partsOf(signature, at).flatMap((each, place) => tasksOf(each, `${at}[${place}]`))
    if (typeof group !== "string" || group === "") return tasks
    return tasks.map((task, index) => ({
      ...task,
      options: { group_id: group, group_index: index, ...task.options },
    }))
  }
  const [first, ...rest] = stepsOf(signature, at)
  if (first === undefined || !isPlain(first))
    throw new Refused(`${at}: a chain that begins with a group is a chord, which is not supported here`)
  if (!rest.every(isPlain)) throw new Refused(`${at}: a chain with a group in it is not supported here`)
  const before = listOf(first.options.chain, `${at}.options.chain`)
  return [{ ...first, options: { ...first.options, chain: [...before, ...rest.toReversed()] } }]
}

/** The links of a chain in the order in which they run; another signature is one link. */
const stepsOf = (signature: Signature, at: string): Signatures => {
  if (signature.subtask_type === "chain") {
    return partsOf(signature, at).flatMap((each, place) => stepsOf(each, `${at}[${place}]`))
  }
  if (isPlain(signature) || signature.subtask_type === "group") return [signature]
  throw new Refused(`${at}: a ${signature.subtask_type} is not supported here`)
}
