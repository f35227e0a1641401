/** Mutants of what a driver declares and of how it stores tasks. */
import { Buffer } from "node:buffer"
import type { Message } from "../../../../runtime/protocol/message.ts"
import type { Commit, Committed, Delivery, Posting, Receipt } from "../../../../runtime/transport/driver.ts"
import { TransportError } from "../../../../runtime/transport/mod.ts"
import { sleep } from "../../stage.ts"
import { messageOf } from "../task.ts"
import { batches, breaking, broken, type DriverMutant, deliveries, postings, whole } from "./mutant.ts"

/** Changes messages before they are delivered. */
const messages = (change: (message: Message) => Partial<Message>): DriverMutant["breaker"] =>
  deliveries((delivery) => {
    const message = messageOf(delivery)
    return { ...delivery, content: { ...message, ...change(message) } }
  })

let names = 0
/** The same task under another publish key. */
export const renamed = (posting: Posting): Posting => ({ ...posting, key: `${posting.key}#${++names}` })

/** A value of several chunks whose second and third one are joined in the wrong order. */
export const chunksMixed = (bytes: Uint8Array): Uint8Array => {
  const chunk = 512 * 1024
  const [first, second, third] = [0, chunk, 2 * chunk].map((from) => bytes.subarray(from, from + chunk))
  const rest = bytes.subarray(3 * chunk)
  return Buffer.concat([first ?? bytes, third ?? bytes, second ?? bytes, rest])
}

/** Never recognises a publish key. */
export const forgetful = postings(renamed)

/** Stores the tasks for which `isNew` holds, and answers `duplicate` for the others. */
export const deduplicating = (
  isNew: (posting: Posting, seen: Set<string>) => boolean | Promise<boolean>,
): DriverMutant["breaker"] =>
  broken(() => {
    const seen = new Set<string>()
    return ({ publish }) => ({
      publish: (each) =>
        Promise.all(
          each.map(async (posting): Promise<Receipt> => {
            if (!(await isNew(posting, seen))) return { status: "duplicate" }
            return (await publish([renamed(posting)]))[0] ?? { status: "stored" }
          }),
        ),
    })
  })

/** Splits a commit into three, with a pause after each. */
export const inSteps = (wait: number): DriverMutant["breaker"] =>
  breaking(({ commit }) => ({
    commit: (each) =>
      Promise.all(
        each.map(async ({ id, record, post, task }) => {
          let first: Committed = { status: "committed", revision: "" }
          const parts: ReadonlyArray<Commit> = [
            { id, ...(record ? { record } : {}) },
            { id, ...(post ? { post } : {}) },
            { id, ...(task ? { task } : {}) },
          ]
          for (const [at, part] of parts.entries()) {
            const [answer] = await commit([part])
            if (answer === undefined || answer.status !== "committed") return answer ?? first
            if (at === 0) first = answer
            await sleep(wait)
          }
          return first
        }),
      ),
  }))

/** Stands for an optional member that is there and always fails. */
const failing = () => Promise.reject(new TransportError("internal", "this is not there"))
const REFUSED = "declared: credentials that the broker refuses fail as unauthorized, and the error does not tell them"
const breaks = "declared: every optional member that is there answers"

export const publishMutants: ReadonlyArray<DriverMutant> = [
  {
    breaks: "declared: the capabilities are those that its author expects",
    breaker: breaking(({ capabilities }) => ({ capabilities: { ...capabilities, maxTask: capabilities.maxTask + 1 } })),
  },
  {
    breaks: "declared: the optional members are those that its author expects, each whole or absent",
    breaker: () => (connect) => async (options) => {
      const { waiting, ...driver } = await connect(options)
      return driver
    },
  },
  {
    breaks: "declared: the optional members are those that its author expects, each whole or absent",
    on: "stepwise",
    breaker: () => (connect) => async (options) => {
      const { orphans, ...driver } = await connect(options)
      return driver
    },
  },
  { breaks, breaker: breaking(() => ({ query: failing })) },
  { breaks, breaker: breaking(() => ({ queues: failing })) },
  { breaks, breaker: breaking(() => ({ waiting: failing })) },
  { breaks, breaker: breaking(() => ({ broadcast: { send: failing, listen: failing } })) },
  { breaks, breaker: breaking(({ store }) => ({ store: { ...store, watch: failing } })) },
  { breaks, on: "stepwise", breaker: breaking(() => ({ orphans: failing })) },
  {
    breaks:
      "declared: a driver that says it is atomic is: what sees the record of a commit sees its postings and the end of its task",
    breaker: inSteps(3),
  },
  {
    breaks: "declared: a namespace outside of its alphabet is refused as invalid",
    breaker: () => (connect) => (options) =>
      connect({ ...options, namespace: /^[\w-]{1,64}$/.test(options.namespace) ? options.namespace : "odd" }),
  },
  {
    breaks: REFUSED,
    breaker: whole,
    harness: () => ({ intrude: () => Promise.reject(new TransportError("unavailable", "there is no answer")) }),
  },
  {
    breaks: REFUSED,
    breaker: whole,
    // The client library puts the URL into its error, which is the cause of the driver's.
    harness: () => ({
      intrude: async (_, password) => {
        const cause = new Error(`cannot connect to mine://user:${password}@localhost`)
        throw new TransportError("unauthorized", "these credentials are refused", { cause })
      },
    }),
  },
  {
    breaks: "publish: the bytes of a body come back as they were, UTF-8 or not",
    breaker: messages(({ body }) => ({ body: Buffer.from(Buffer.from(body).toString("utf8")) })),
  },
  {
    breaks: "publish: an empty body stays empty",
    breaker: messages(({ body }) => ({ body: body.length === 0 ? Uint8Array.of(0) : body })),
  },
  {
    breaks: "publish: headers come back with their types, whatever text they hold",
    breaker: messages(({ headers }) => ({ headers: JSON.parse(JSON.stringify(headers).replaceAll(/[^ -~]/g, "?")) })),
  },
  {
    breaks: "publish: properties come back, also those that nobody knows",
    breaker: messages(({ properties: { "x-unheard-of": _, ...properties } }) => ({ properties })),
  },
  {
    breaks: "publish: the property expiration is carried, not obeyed",
    breaker: batches((each) => each.filter(({ message }) => message.properties["expiration"] === undefined)),
  },
  {
    breaks: "publish: a header named __proto__ is inert",
    breaker: messages((message) => {
      const headers: Record<string, unknown> = {}
      for (const [name, value] of Object.entries(message.headers)) {
        if (name !== "__proto__") headers[name] = value
        // Sets the prototype, as assigning the key `__proto__` does.
        else if (typeof value === "object") Object.setPrototypeOf(headers, value)
      }
      return { headers }
    }),
  },
  {
    breaks: "publish: the largest task that is allowed is stored and comes back",
    breaker: messages(({ body }) => ({ body: body.subarray(0, 1_000_000) })),
  },
  {
    breaks: "publish: the largest task that is allowed is stored and comes back",
    breaker: messages(({ body }) => ({ body: chunksMixed(body) })),
  },
  {
    breaks: "publish: one byte more is too-large, and its neighbours are stored all the same",
    // Fails all tasks of a batch where only one should fail.
    breaker: breaking(({ publish, capabilities }) => ({
      publish: async (each) => {
        const error = new TransportError("too-large", "one of them is too large")
        const isLarge = each.some(({ frame }) => frame.length > capabilities.maxTask)
        return isLarge ? each.map(() => ({ status: "failed", error })) : publish(each)
      },
    })),
  },
  {
    breaks: "publish: no tasks: no receipts",
    breaker: breaking(({ publish }) => ({
      publish: async (each) => (each.length === 0 ? [{ status: "stored" }] : publish(each)),
    })),
  },
  { breaks: "publish: the same publish key again is a duplicate and stores nothing", breaker: forgetful },
  {
    breaks: "publish: the same publish key twice in one batch is stored once",
    breaker: breaking(({ publish }) => ({
      publish: (each) => {
        const seen = new Set<string>()
        return publish(
          each.map((posting) => {
            const again = seen.has(posting.key)
            seen.add(posting.key)
            return again ? renamed(posting) : posting
          }),
        )
      },
    })),
  },
  {
    breaks: "publish: the same publish key is a duplicate while the task is in hand and after it ended",
    breaker: broken(() => {
      const ended = new Set<string>()
      return ({ publish, commit }) => ({
        publish: (each) => publish(each.map((posting) => (ended.has(posting.id) ? renamed(posting) : posting))),
        commit: (each) => {
          for (const { id, task } of each) if (task?.kind === "ack") ended.add(id)
          return commit(each)
        },
      })
    }),
  },
  {
    breaks: "publish: a publish key is remembered after its task has ended, for as long as the caller tries again",
    // Remembers it for a second.
    breaker: broken(() => {
      const ends = new Map<string, number>()
      return ({ publish }) => ({
        publish: (each) =>
          publish(
            each.map((posting) => {
              const end = ends.get(posting.key) ?? Number.POSITIVE_INFINITY
              if (end === Number.POSITIVE_INFINITY) ends.set(posting.key, Date.now() + 1_000)
              return Date.now() < end ? posting : renamed(posting)
            }),
          ),
      })
    }),
  },
  {
    breaks: "publish: the same id with more retries, a later run or more hops is not a duplicate",
    breaker: deduplicating(({ id }, seen) => !seen.has(id) && seen.add(id).has(id)),
  },
  {
    breaks: "publish: of publishes of one key at the same time, one is stored",
    breaker: deduplicating(async ({ key }, seen) => {
      const isNew = !seen.has(key)
      await sleep(5)
      seen.add(key)
      return isNew
    }),
  },
  {
    breaks: "publish: what the caller changes afterwards does not reach the task, nor the next delivery",
    breaker: broken(() => {
      let kept: Delivery["content"] | undefined
      return ({ take }) => ({
        take: async (request, signal) => {
          const { deliveries } = await take(request, signal)
          for (const { content } of deliveries) kept ??= content
          return { deliveries: deliveries.map((delivery) => ({ ...delivery, content: kept ?? delivery.content })) }
        },
      })
    }),
  },
  {
    breaks: "publish: many tasks from several publishers all come, each once",
    breaker: batches((each) => each.slice(0, Math.max(1, each.length - 1))),
  },
  {
    breaks: "publish: a due time beyond what it keeps is refused as unsupported, and its neighbours are stored",
    on: "poor",
    breaker: postings(({ due, ...posting }) => posting),
  },
  {
    breaks: "publish: a task for the front is refused as unsupported where there is none",
    on: "poor",
    breaker: postings((posting) => ({ ...posting, level: Math.min(posting.level, 9) })),
  },
]
