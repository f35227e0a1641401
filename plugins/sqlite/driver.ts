/** Puts the parts together: one open database as a driver. */
import type {
  Capabilities,
  Commit,
  Committed,
  Driver,
  Interest,
  News,
  Receipt,
  TaskPosting,
} from "../../runtime/transport/driver.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import type { Broadcast, Queries, QueueBrowser } from "../../runtime/transport/optional.ts"
import type { DriverStore } from "../../runtime/transport/store.ts"
import type { Database } from "./database/database.ts"
import { FileWatch } from "./database/database.ts"
import { faultOf, isBusy } from "./database/fault.ts"
import type { Opened } from "./database/open.ts"
import { MAX_RECORD, MAX_TASK, type PostingColumns } from "./jobs/columns.ts"
import { JobTable } from "./jobs/job-table.ts"
import { QueueNames } from "./jobs/queue-names.ts"
import { Maintenance, Sweeper } from "./maintenance.ts"
import { Leases } from "./queue/lease.ts"
import { Publisher } from "./queue/publish.ts"
import { Taker } from "./queue/take.ts"
import { WaitingTakes } from "./queue/waiting.ts"
import { Committer, type PreparedCommit } from "./records/commit.ts"
import { Lister } from "./records/query.ts"
import { Reader } from "./records/read.ts"
import { Census } from "./stats.ts"
import { StoreExpiry, StoreTable } from "./store.ts"
import { BROADCAST, JOBS, Presence, QUEUES, STORE, Subscriptions } from "./watch/listeners.ts"
import { Listening, NewsTable } from "./watch/news.ts"
import { Doorbell } from "./watch/notifier.ts"
import { type Handling, inPortions } from "./writing/chunks.ts"
import { Writer } from "./writing/writer.ts"

/** A ring that is lost costs one slow look, every half second. */
const RESOLUTION_MS = 600

/** How often, and after which pause, reading is tried while the file is locked. */
const READ_ATTEMPTS = 100
const READ_PAUSE_MS = 10

const TOPIC = /^[a-z0-9.-]{1,128}$/

const capabilitiesOf = ({ durability, database }: Opened): Capabilities => ({
  durability,
  reach: database.path === undefined ? "process" : "host",
  atomic: true,
  waits: true,
  dedupeWindow: Number.POSITIVE_INFINITY,
  delay: Number.POSITIVE_INFINITY,
  bands: 10,
  front: true,
  maxTask: MAX_TASK,
  maxRecord: MAX_RECORD,
  leaseResolution: RESOLUTION_MS,
  dueResolution: RESOLUTION_MS,
})

/** A driver, until its file is gone. */
export type FileDriver = Driver &
  QueueBrowser &
  Queries & { readonly store: Required<DriverStore>; readonly broadcast: Broadcast }

/** `onGone` is called once, when the file was removed or replaced; from then on everything fails with that error. */
export const driverOver = (
  opened: Opened,
  lease: number,
  onGone: (error: TransportError) => void = ignore,
): FileDriver => {
  const { database, ns } = opened
  const names = new QueueNames(database, ns)
  const jobs = new JobTable(database, ns, names)
  const publisher = new Publisher(jobs, names)
  const committer = new Committer(database, ns, jobs, names, publisher)
  const reader = new Reader(database, ns, jobs, names)
  const lister = new Lister(database, ns, jobs, names, reader)
  const leases = new Leases(database, lease)
  const census = new Census(database, ns, jobs, names)
  const table = new StoreTable(database, ns)
  const taker = new Taker(database, names, lease)
  const presence = new Presence(database, ns)
  const subscriptions = new Subscriptions()
  const closing = new AbortController()
  const statusListeners = new Set<Parameters<Driver["onStatus"]>[0]>()
  let connected = true

  const onStatus = (now: boolean, why?: TransportError): void => {
    if (now === connected) return
    connected = now
    for (const listener of statusListeners)
      queueMicrotask(() => (now ? listener("connected") : listener("disconnected", why)))
  }

  const doorbell = new Doorbell(database, presence.instance, () => {
    waiting.look()
    listening.read()
    expiry.set()
  })
  const waiting = new WaitingTakes(taker, {
    wake: () => writer.wake(),
    onWait: () => void listening.start(QUEUES).catch(ignore),
    isWatched: () => subscriptions.watchesQueues,
  })
  const news = new NewsTable(database, ns, { presence, subscriptions, names, store: table, taker, doorbell })
  const writer = new Writer(database, {
    participants: [waiting, news, { ...bystander, rolledBack: () => names.forget(), committed: () => expiry.set() }],
    tells: () => news.tells(),
    onStatus,
  })
  const { signal: closed } = closing
  const listening = new Listening({ presence, news, doorbell, writer, closing: closed, look: () => waiting.look() })
  const expiry = new StoreExpiry(table, writer, () => subscriptions.watchesStore)
  const sweeper = new Sweeper(database, jobs)
  const maintenance = new Maintenance({ writer, presence, news, store: table, sweeper })
  const watch = new FileWatch(database, () => {
    const error = goneError(database)
    writer.break(error)
    onGone(error)
  })

  /** Runs `run` unless this transport was closed. Reading may be locked out for a moment, after another process died. */
  const open = async <T>(run: () => T | Promise<T>): Promise<T> => {
    watch.touch()
    for (let attempt = 0; ; attempt++) {
      if (closed.aborted) throw new TransportError("closed", "this transport was closed")
      if (writer.broken !== undefined) throw writer.broken
      try {
        return await run()
      } catch (error) {
        if (!isBusy(error) || attempt >= READ_ATTEMPTS) throw faultOf(error, database.label)
      }
      await new Promise((wake) => setTimeout(wake, READ_PAUSE_MS))
    }
  }

  const publishing: Handling<TaskPosting, PostingColumns, Receipt> = {
    prepare: (posting) => publisher.prepare(posting),
    size: ({ frame }) => frame.length,
    run: (transaction, columns) => ({ status: publisher.post(transaction, columns) }),
  }
  const committing: Handling<Commit, PreparedCommit, Committed> = {
    prepare: (commit) => committer.prepare(commit),
    size: ({ record, post }) => post.reduce((sum, { frame }) => sum + frame.length, record?.bytes.length ?? 0),
    run: (transaction, commit) => committer.commit(transaction, commit),
  }

  const listen = (interest: Interest, listener: (news: News) => void, signal: AbortSignal): Promise<void> => {
    if (interest.kind === "queues") {
      const queues = new Set(interest.queues)
      return listening.subscribe(QUEUES, signal, () => subscriptions.onQueues(queues, listener))
    }
    const id = interest.kind === "job" ? interest.id : undefined
    return listening.subscribe(JOBS, signal, () => subscriptions.onJob(id, listener))
  }

  const store: Required<DriverStore> = {
    get: (keys) => open(() => keys.map((key) => table.get(key))),
    write: (operations) =>
      open(async () => {
        const prepared = operations.map((operation) => table.prepare(operation))
        return await writer.do((transaction) => table.write(transaction, prepared))
      }),
    list: (range) => open(() => table.list(range)),
    watch: (prefix, listener, signal) =>
      open(async () => {
        await listening.subscribe(STORE, signal, () => subscriptions.onStore(prefix, listener))
        expiry.set()
      }),
    now: () => open(() => Date.now()),
  }

  const broadcast: Broadcast = {
    send: (topic, payload) =>
      open(() => {
        checkTopic(topic)
        const copy = payload.slice()
        return writer.doLightly((transaction) => void transaction.announced.push({ topic, payload: copy }))
      }),
    listen: (topic, listener, signal) =>
      open(() => {
        checkTopic(topic)
        return listening.subscribe(BROADCAST, signal, () => subscriptions.onTopic(topic, listener))
      }),
  }

  const close = async (): Promise<void> => {
    closing.abort()
    maintenance.close()
    watch.close()
    expiry.close()
    waiting.close()
    if (presence.listens) await writer.doLightly((transaction) => presence.leave(transaction)).catch(ignore)
    await writer.drained()
    writer.close()
    doorbell.close()
    database.close()
  }
  let ended: Promise<void> | undefined

  return {
    name: "sqlite",
    capabilities: capabilitiesOf(opened),
    store,
    broadcast,
    publish: (postings) => open(() => inPortions(writer, postings, publishing)),
    take: (request, signal) =>
      open(async () => {
        // One that finds nothing writes nothing, and would not notice.
        if (writer.ailing !== undefined) throw writer.ailing
        return { deliveries: await waiting.take(request, signal) }
      }),
    extend: (tokens) =>
      open(() => writer.doLightly((transaction) => tokens.map((token) => leases.extend(transaction, token)))),
    read: (ids, what) => open(() => reader.read(ids, what)),
    commit: (commits) => open(() => inPortions(writer, commits, committing)),
    query: (query) => open(() => lister.query(query)),
    queues: () => open(() => census.queues()),
    waiting: (what, max) => open(() => census.waiting(what, max)),
    listen: (interest, listener, signal) => open(() => listen(interest, listener, signal)),
    onStatus: (listener) => {
      statusListeners.add(listener)
      return () => void statusListeners.delete(listener)
    },
    close: () => {
      ended ??= close()
      return ended
    },
  }
}

const bystander = {
  wants: () => false,
  join: () => undefined,
  failed: () => undefined,
}

const ignore = (): void => undefined

const goneError = ({ label, owned }: Database): TransportError =>
  new TransportError(
    "unavailable",
    `${label} was removed or replaced while it was open, and what it held is lost${owned ? "" : ": open the file that is there now, and start again with it"}`,
  )

const checkTopic = (topic: string): void => {
  if (!TOPIC.test(topic)) throw new TransportError("invalid", `not a topic: ${JSON.stringify(topic.slice(0, 128))}`)
}
