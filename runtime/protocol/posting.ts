/** What a transport is told about a message: where it goes, in which order, and when. */
import { Result } from "effect"
import { describe, type InvalidTask, invalid, isFiniteNumber, Wrong } from "./header-field.ts"
import { type AddressedTask, DEFAULT_PRIORITY, FRONT_LEVEL, type Message } from "./message.ts"
import { parseTask, type Task } from "./task.ts"

/** 0–9. Celery 5.6 with Redis clamps what lies outside. */
const priorityOf = (value: unknown): number | Wrong => {
  if (value === undefined || value === null) return DEFAULT_PRIORITY
  if (!isFiniteNumber(value)) return new Wrong("priority", `must be a number from 0 to 9, not ${describe(value)}`)
  return Math.min(Math.max(Math.trunc(value), 0), 9)
}

/**
 * The posting of a message whose headers have been parsed already. Fails with {@link InvalidTask} when its priority is
 * no number.
 */
export const postingOfTask = (
  task: Task,
  message: Message,
  queue: string,
): Result.Result<AddressedTask, InvalidTask> => {
  const priority = priorityOf(message.properties.priority)
  if (priority instanceof Wrong) return Result.fail(invalid(priority))
  const { own } = task
  const posting: { -readonly [Field in keyof AddressedTask]: AddressedTask[Field] } = {
    id: task.id,
    run: own.run ?? 1,
    retries: task.retries,
    queue,
    level: own.front === true ? FRONT_LEVEL : priority,
    message,
  }
  if (task.eta !== null) posting.due = task.eta
  if (task.expires !== null) posting.expires = task.expires
  if (own.key !== undefined) posting.key = own.key
  if (own.hops !== undefined) posting.hops = own.hops
  return Result.succeed(posting)
}

/**
 * The posting of a message that goes to a queue: address, order, due time and publish key from headers and properties
 * alone. Fails with {@link InvalidTask} when its headers make no task.
 */
export const postingOf = (message: Message, queue: string): Result.Result<AddressedTask, InvalidTask> => {
  const task = parseTask(message)
  return Result.isFailure(task) ? Result.fail(task.failure) : postingOfTask(task.success, message, queue)
}
