/** Puts a task and its body together into a message. */

import { Result } from "effect"
import { type Body, type EncodedBody, type EncodeOptions, encodeBody, type UnserialisableBody } from "./body.ts"
import { renderCompact, type Task } from "./headers.ts"
import type { Message, Properties } from "./message.ts"

/** What a message says beside its headers. */
export interface MessageOptions extends EncodeOptions {
  /** 0–9. Defaults to none, which readers take for 4. */
  readonly priority?: number
  /** Where a Celery client of the `rpc://` back end waits. */
  readonly replyTo?: string
}

/** The message of a task whose body is bytes already. Its headers hold only what says something (`renderCompact`). */
export const messageOf = (
  task: Task,
  body: EncodedBody,
  options: Pick<MessageOptions, "priority" | "replyTo"> = {},
): Message => {
  const properties: { -readonly [Name in keyof Properties]: Properties[Name] } = {
    content_type: body.contentType,
    content_encoding: body.contentEncoding,
    correlation_id: task.id,
  }
  if (options.replyTo !== undefined) properties.reply_to = options.replyTo
  if (options.priority !== undefined) properties.priority = options.priority
  const said = task.compression === body.compression ? task : { ...task, compression: body.compression }
  return { headers: renderCompact(said), properties, body: body.bytes }
}

/** The message of a task. Fails with UnserialisableBody when its arguments cannot be written. */
export const composeMessage = (
  task: Task,
  body: Body,
  options: MessageOptions = {},
): Result.Result<Message, UnserialisableBody> => {
  const encoded = encodeBody(body, options)
  return Result.isFailure(encoded)
    ? Result.fail(encoded.failure)
    : Result.succeed(messageOf(task, encoded.success, options))
}
