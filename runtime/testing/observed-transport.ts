/**
 * The transport in memory as `runActor` uses it: it notes which tasks are submitted. Under a seed each of its calls
 * takes some turns of the event loop longer, as many as the seed decides.
 */
import * as Result from "effect/Result"
import { builtin } from "../connection/builtin.ts"
import { decodeBody } from "../protocol/body.ts"
import { compact } from "../protocol/compact.ts"
import { parseTask } from "../protocol/headers.ts"
import { selectInput } from "../protocol/input.ts"
import type { Message } from "../protocol/message.ts"
import type { Commit, Driver, Plugin } from "../transport/driver.ts"
import { decodeStored } from "../transport/job-store/codec.ts"
import { nextTurn } from "../transport/timers.ts"
import { Random } from "./random.ts"

/** A task that was submitted: by the test, by a handler, or as a callback, an errback or the next of a chain. */
export interface SubmittedTask {
  readonly id: string
  /** Actor and method (`text.count`), or the name of the task alone where it names no method. */
  readonly name: string
  /** As the handler gets it, before a schema has changed it. `undefined` where the body cannot be decoded. */
  readonly input: unknown
  readonly queue: string
  /** When it may start, where that is later than its submission. */
  readonly due?: Date
  /** Id of the job whose handler submitted it, or whose outcome did. */
  readonly parentId?: string
}

/** Most turns of the event loop that a call takes longer where a seed decides, before it is done and again before it is answered. */
const MAX_TURNS = 6

/** The plugin, under the scheme `observed`, and the list that it adds submitted tasks to, in order. */
export const observedTransport = (
  seed: number | undefined,
): { readonly plugin: Plugin; readonly submitted: ReadonlyArray<SubmittedTask> } => {
  const submitted: Array<SubmittedTask> = []
  const seen = new Set<string>()
  const note = (id: string, queue: string, message: Message, due: number | undefined): void => {
    if (seen.has(id)) return
    seen.add(id)
    submitted.push(taskOf(id, queue, message, due))
  }
  const plugin: Plugin = {
    schemes: ["observed"],
    connect: async (url, options) => {
      const memory = await builtin.memory()
      const driver = await memory.connect(new URL(url.href.replace(/^\w+/, "memory")), options)
      return observed(seed === undefined ? driver : unhurried(driver, new Random(seed)), note)
    },
  }
  return { plugin, submitted }
}

type Note = (id: string, queue: string, message: Message, due: number | undefined) => void

const taskOf = (id: string, queue: string, message: Message, due: number | undefined): SubmittedTask => {
  const task = Result.getOrUndefined(parseTask(message))
  const body = Result.getOrUndefined(decodeBody(message))
  const parentId = task?.parentId ?? undefined
  return {
    id,
    name: task === undefined ? "" : task.meth === null ? task.task : `${task.task}.${task.meth}`,
    input: body && Result.getOrUndefined(selectInput(body)),
    queue,
    ...(due !== undefined && due > Date.now() ? { due: new Date(due) } : {}),
    ...compact({ parentId }),
  }
}

/** The driver, which notes the tasks that it stores: in queues, and in records of jobs that wait for others. */
const observed = (driver: Driver, note: Note): Driver => {
  const noteCommit = ({ record, post = [] }: Commit): void => {
    if (record?.index.state === "deferred") {
      const { id, queue, message, dueAt } = decodeStored(record.bytes)
      if (message !== undefined) note(id, queue, message, dueAt)
    }
    for (const { id, queue, message, due } of post) note(id, queue, message, due)
  }
  return overriding(driver, {
    publish: async (postings) => {
      const receipts = await driver.publish(postings)
      for (const [at, { id, queue, message, due }] of postings.entries())
        if (receipts[at]?.status === "stored") note(id, queue, message, due)
      return receipts
    },
    commit: async (commits) => {
      const answers = await driver.commit(commits)
      for (const [at, commit] of commits.entries()) if (answers[at]?.status === "committed") noteCommit(commit)
      return answers
    },
  })
}

/**
 * The driver, each of whose calls takes some turns of the event loop longer, so that calls overtake each other. No time passes
 * meanwhile, so that a test that waits for a call need not turn the clock.
 */
const unhurried = (driver: Driver, random: Random): Driver => {
  const pause = async (): Promise<void> => {
    for (let turns = random.int(0, MAX_TURNS); turns > 0; turns--) await nextTurn()
  }
  const slowly = async <T>(call: () => Promise<T>): Promise<T> => {
    await pause()
    const answer = await call()
    await pause()
    return answer
  }
  const { store } = driver
  return overriding(driver, {
    publish: (postings) => slowly(() => driver.publish(postings)),
    // Tasks that were taken are returned at once: a signal may fire during a pause, and late tasks would have to be
    // given back.
    take: async (request, signal) => {
      await pause()
      return driver.take(request, signal)
    },
    extend: (tokens) => slowly(() => driver.extend(tokens)),
    read: (ids, what) => slowly(() => driver.read(ids, what)),
    commit: (commits) => slowly(() => driver.commit(commits)),
    store: overriding(store, {
      get: (keys) => slowly(() => store.get(keys)),
      write: (operations) => slowly(() => store.write(operations)),
      list: (range) => slowly(() => store.list(range)),
    }),
  })
}

/** The object with some methods replaced; the others are called on it as before. */
export const overriding = <T extends object>(object: T, methods: Partial<T>): T =>
  new Proxy(object, {
    get: (target, name) => {
      if (Object.hasOwn(methods, name)) return Reflect.get(methods, name)
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === "function" ? value.bind(target) : value
    },
  })
