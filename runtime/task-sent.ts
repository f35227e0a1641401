/** The event that a task was accepted, told by whoever submitted it. */
import { Result } from "effect"
import { parseTask } from "./protocol/headers.ts"
import type { Posting } from "./protocol/message.ts"
import type { Redaction } from "./redaction.ts"
import { taskTexts } from "./task-texts.ts"

/**
 * Its fields; `methodOf` tells what the task's method says about its arguments, if that is known. Never fails: an event is
 * no reason to fail a submission.
 */
export const taskSent = async (
  { message, queue }: Posting,
  methodOf: (task: string, meth: string | null) => Promise<Redaction | undefined>,
): Promise<Readonly<Record<string, unknown>> | undefined> => {
  const parsed = parseTask(message)
  if (Result.isFailure(parsed)) return undefined
  const task = parsed.success
  const method = await methodOf(task.task, task.meth).catch(() => undefined)
  // As Celery has it: sent by way of the exchange without a name, which every queue is bound to by its own.
  return { ...taskTexts(task, message, method), queue, exchange: "", routing_key: queue }
}
