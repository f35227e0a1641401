/** The event that a task was accepted, told by whoever submitted it. */
import { Result } from "effect"
import type { EventSender } from "../../cluster/events.ts"
import type { Redaction } from "../../log/redaction.ts"
import { taskEventFields } from "../../log/task-event-fields.ts"
import { parseTask } from "../../protocol/headers.ts"
import type { AddressedTask } from "../../protocol/message.ts"

/** What a task's method says about showing its arguments, if that is known. */
export type MethodOf = (task: string, meth: string | null) => Promise<Redaction | undefined>

/** Never fails: an event is no reason to fail a submission. */
export const tellSent = async (
  events: EventSender,
  { message, queue }: AddressedTask,
  methodOf: MethodOf,
): Promise<void> => {
  const parsed = parseTask(message)
  if (Result.isFailure(parsed)) return
  const task = parsed.success
  const method = await methodOf(task.task, task.meth).catch(() => undefined)
  // As Celery has it: sent by way of the exchange without a name, which every queue is bound to by its own.
  events.tell("task-sent", { ...taskEventFields(task, message, method), queue, exchange: "", routing_key: queue })
}
