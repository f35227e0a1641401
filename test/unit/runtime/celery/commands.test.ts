/** Commands to the workers of Celery, over messages in this process. */
import { Result } from "effect"
import { expect, test } from "vitest"
import { CeleryCommands } from "../../../../runtime/celery/commands.ts"
import { parseControl, replyMessage } from "../../../../runtime/protocol/celery-control.ts"
import type { Message } from "../../../../runtime/protocol/message.ts"
import type { CeleryMessages } from "../../../../runtime/transport/celery.ts"
import { TransportError } from "../../../../runtime/transport/mod.ts"

test("a command is answered although the broker was away when the first one was sent", async () => {
  let isAway = true
  let listener: ((message: Message) => void) | undefined
  const messages: Pick<CeleryMessages, "receive" | "broadcast"> = {
    receive: async (_queue, receive) => {
      if (isAway) throw new TransportError("unavailable", "the broker is away")
      listener = receive
    },
    broadcast: async (_exchange, _key, message) => {
      const { reply } = Result.getOrThrow(parseControl(message))
      listener?.(Result.getOrThrow(replyMessage({ node: "a@b", value: "pong" }, reply?.ticket ?? null, 1)))
    },
  }
  const commands = new CeleryCommands(messages, new AbortController().signal)
  await expect(commands.ask("ping", {}, ["a@b"], 1_000)).rejects.toThrow("the broker is away")
  isAway = false
  expect(await commands.ask("ping", {}, ["a@b"], 1_000)).toMatchObject([{ node: "a@b", value: "pong" }])
})
