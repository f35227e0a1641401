/** Makes a message of a task and its body. */

import * as Result from "effect/Result"
import { type Body, type EncodedBody, type EncodeOptions, encodeBody, type UnserialisableBody } from "./body.ts"
import { renderCompact, type Task } from "./headers.ts"
import type { Message, Properties } from "./message.ts"

/** Properties of a message besides its headers. */
export interface MessageOptions extends EncodeOptions {
  /** 0–9. Defaults to none, which means 4 to every reader. */
  readonly priority?: number
  /** Queue on which a Celery client with the `rpc://` back end waits for its result. */
  readonly replyTo?: string
}

/** The message of a task whose body is encoded already. Headers that say nothing are left out (`renderCompact`). */
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

/** The message of a task. Fails with UnserialisableBody where its arguments cannot be encoded. */
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
