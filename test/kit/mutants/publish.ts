/** Mutants of what a transport declares and of how it stores tasks. */
import { Buffer } from "node:buffer"
import type { Message, Posting } from "../../../runtime/protocol/message.ts"
import { publishKey } from "../../../runtime/protocol/message.ts"
import type { Receipt } from "../../../runtime/transport/mod.ts"
import { sleep } from "../context.ts"
import { encodedSize } from "../task.ts"
import { type Mutant, queueBroken, transportBroken } from "./mutant.ts"

/** Every posting is changed on its way in. */
const postings = (change: (posting: Posting) => Posting): Mutant["breaker"] =>
  queueBroken(() => (queue) => ({ publish: (each) => queue.publish(each.map(change)) }))

const messages = (change: (message: Message) => Partial<Message>): Mutant["breaker"] =>
  postings((posting) => ({ ...posting, message: { ...posting.message, ...change(posting.message) } }))

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString("utf8")

let hops = 1_000
/** The same task under another publish key. */
export const renamed = (posting: Posting): Posting => ({ ...posting, hops: ++hops })

/** Publish keys are never recognised. */
export const forgetful = postings(renamed)

/** Stores what `isNew` says is new, and calls the rest duplicates. */
const deduplicating = (isNew: (posting: Posting, seen: Set<string>) => boolean | Promise<boolean>): Mutant["breaker"] =>
  queueBroken(() => {
    const seen = new Set<string>()
    return (queue) => ({
      publish: (each) =>
        Promise.all(
          each.map(async (posting): Promise<Receipt> => {
            if (!(await isNew(posting, seen))) return { status: "duplicate" }
            return (await queue.publish([renamed(posting)]))[0] ?? { status: "stored" }
          }),
        ),
    })
  })

const withoutField =
  (field: "due" | "key") =>
  (posting: Posting): Posting => {
    const { [field]: _, ...rest } = posting
    return rest
  }

export const publishMutants: ReadonlyArray<Mutant> = [
  {
    breaks: "declared: the capabilities are those that its author expects",
    breaker: transportBroken(() => (transport) => ({
      ...transport,
      capabilities: { ...transport.capabilities, maxTask: transport.capabilities.maxTask + 1 },
    })),
  },
  {
    breaks: "declared: the optional members are those that its author expects",
    breaker: transportBroken(
      () =>
        ({ store, ...transport }) =>
          transport,
    ),
  },
  {
    breaks: "declared: a namespace outside of its alphabet is refused as invalid",
    breaker: () => (connect) => (options) =>
      connect({ ...options, namespace: /^[\w-]{1,64}$/.test(options.namespace) ? options.namespace : "odd" }),
  },
  {
    breaks: "publish: the bytes of a body come back as they were, UTF-8 or not",
    breaker: messages(({ body }) => ({ body: Buffer.from(text(body)) })),
  },
  {
    breaks: "publish: an empty body stays empty",
    breaker: messages(({ body }) => ({ body: body.length === 0 ? Uint8Array.of(0) : body })),
  },
  {
    breaks: "publish: headers come back with their types, whatever text they hold",
    breaker: messages(({ headers }) => ({
      headers: JSON.parse(JSON.stringify(headers).replaceAll(/[^ -~]/g, "?")),
    })),
  },
  {
    breaks: "publish: properties come back, also those that nobody knows",
    breaker: messages(({ properties }) => {
      const { content_type, content_encoding, correlation_id, priority, reply_to } = properties
      return {
        properties: {
          content_type,
          content_encoding,
          ...(correlation_id === undefined ? {} : { correlation_id }),
          ...(priority === undefined ? {} : { priority }),
          ...(reply_to === undefined ? {} : { reply_to }),
        },
      }
    }),
  },
  {
    breaks: "publish: the property expiration is carried, not obeyed",
    breaker: queueBroken(() => (queue) => ({
      publish: async (each) => {
        await queue.publish(each.filter(({ message }) => message.properties.expiration === undefined))
        return each.map(() => ({ status: "stored" }))
      },
    })),
  },
  {
    breaks: "publish: a header named __proto__ is inert",
    breaker: queueBroken(() => (queue) => ({
      pull: async (request, signal) =>
        (await queue.pull(request, signal)).map((delivery) => {
          if ("undecodable" in delivery.message) return delivery
          const headers: Record<string, unknown> = {}
          for (const [name, value] of Object.entries(delivery.message.headers)) headers[name] = value
          return { ...delivery, message: { ...delivery.message, headers } }
        }),
    })),
  },
  {
    breaks: "publish: the largest task that is allowed is stored and comes back",
    breaker: messages(({ body }) => ({ body: body.subarray(0, 1_000_000) })),
  },
  {
    breaks: "publish: one byte more is too-large, and its neighbours are stored all the same",
    breaker: queueBroken(() => (queue, { capabilities }) => ({
      publish: async (each) => {
        // All or nothing, where each should stand alone.
        const receipts = await queue.publish(each.filter((posting) => encodedSize(posting) <= capabilities.maxTask))
        return each.map((_, at) => receipts[at] ?? { status: "stored" })
      },
    })),
  },
  {
    breaks: "publish: no tasks: no receipts",
    breaker: queueBroken(() => (queue) => ({
      publish: (each) => (each.length === 0 ? Promise.resolve([{ status: "stored" }]) : queue.publish(each)),
    })),
  },
  { breaks: "publish: the same publish key again is a duplicate and stores nothing", breaker: forgetful },
  {
    breaks: "publish: the same publish key twice in one batch is stored once",
    breaker: queueBroken(() => (queue) => ({
      publish: (each) => {
        const seen = new Set<string>()
        return queue.publish(
          each.map((posting) => {
            const again = seen.has(publishKey(posting))
            seen.add(publishKey(posting))
            return again ? renamed(posting) : posting
          }),
        )
      },
    })),
  },
  {
    breaks: "publish: the same publish key is a duplicate while the task is in hand and after it ended",
    breaker: queueBroken(() => {
      const ended = new Set<string>()
      return (queue) => ({
        publish: (each) => queue.publish(each.map((posting) => (ended.has(posting.id) ? renamed(posting) : posting))),
        settle: async (each) => {
          for (const { record } of each) if (record !== undefined) ended.add(record.id)
          return queue.settle(each)
        },
      })
    }),
  },
  {
    breaks: "publish: the same id with more retries, a later run or more hops is not a duplicate",
    breaker: deduplicating(({ id }, seen) => !seen.has(id) && seen.add(id).has(id)),
  },
  {
    breaks: "publish: of publishes of one key at the same time, one is stored",
    breaker: deduplicating(async (posting, seen) => {
      const isNew = !seen.has(publishKey(posting))
      await sleep(5)
      seen.add(publishKey(posting))
      return isNew
    }),
  },
  {
    breaks: "publish: what the caller changes afterwards does not reach the task, nor the next delivery",
    breaker: queueBroken(() => {
      const kept = new Map<string, Message>()
      return (queue) => ({
        publish: async (each) => {
          for (const { id, message } of each) kept.set(id, message)
          return queue.publish(each)
        },
        pull: async (request, signal) =>
          (await queue.pull(request, signal)).map((delivery) => {
            const id = "headers" in delivery.message ? String(delivery.message.headers["id"]) : ""
            return { ...delivery, message: kept.get(id) ?? delivery.message }
          }),
      })
    }),
  },
  {
    breaks: "publish: many tasks from several publishers all come, each once",
    breaker: queueBroken(() => (queue) => ({
      publish: async (each) => {
        const receipts = await queue.publish(each.slice(0, Math.max(1, each.length - 1)))
        return each.map((_, at) => receipts[at] ?? { status: "stored" })
      },
    })),
  },
  {
    breaks: "publish: a due time is refused as unsupported where none are kept",
    on: "least",
    breaker: postings(withoutField("due")),
  },
  {
    breaks: "publish: a task for the front is refused as unsupported where there is none",
    on: "least",
    breaker: postings((posting) => ({ ...posting, level: Math.min(posting.level, 9) })),
  },
  {
    breaks: "publish: a task with a key is refused as unsupported where keys keep no order",
    breaker: postings(withoutField("key")),
  },
]
