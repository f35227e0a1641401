/** Builds the driver over one open database out of its parts. */
import type {
  Capabilities,
  Commit,
  Committed,
  Driver,
  Interest,
  News,
  Posting,
  Receipt,
} from "../../runtime/transport/driver.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import type { Broadcast, Counts, Queries, QueueBrowser } from "../../runtime/transport/optional.ts"
import type { Store } from "../../runtime/transport/store.ts"
import { sleep } from "../../runtime/transport/timers.ts"
import { MachineClock } from "./clock.ts"
import { type Database, FileWatch } from "./database/database.ts"
import { faultOf, isBusy } from "./database/fault.ts"
import type { Opened } from "./database/open.ts"
import { MAX_RECORD, MAX_TASK, type PostingColumns } from "./jobs/columns.ts"
import { JobTable } from "./jobs/job-table.ts"
import { QueueNames } from "./jobs/queue-names.ts"
import { Maintenance, Repairs, Sweeper } from "./maintenance.ts"
import { TaskPublisher } from "./queue/publish.ts"
import { Leases, Taker } from "./queue/take.ts"
import { WaitingTakes } from "./queue/waiting.ts"
import { Committer, type PreparedCommit } from "./records/commit.ts"
import { JobLister } from "./records/query.ts"
import { JobReader } from "./records/read.ts"
import { QueueStats } from "./stats.ts"
import { StoreExpiry, StoreTable } from "./store.ts"
import { BROADCAST, JOBS, ListenerRegistry, QUEUES, STORE, Subscriptions } from "./watch/listeners.ts"
import { NewsFeed, NewsTable } from "./watch/news.ts"
import { Notifier } from "./watch/notifier.ts"
import { type ItemHandler, inChunks } from "./writing/chunks.ts"
import { Writer } from "./writing/writer.ts"

/** When a notification is lost, the poll of the file finds the task half a second later. */
const RESOLUTION_MS = 600

/** How often a read is tried while the file is locked, and how long it pauses in between. */
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

/** A driver with every optional part. Its calls fail once its file was removed or replaced. */
export type FileDriver = Driver &
  QueueBrowser &
  Queries &
  Counts & { readonly store: Required<Store>; readonly broadcast: Broadcast }

/** `onGone` is called once, when the file was removed or replaced; from then on everything fails with that error. */
export const driverOver = (
  opened: Opened,
  lease: number,
  onGone: (error: TransportError) => void = ignore,
): FileDriver => {
  const { database, ns } = opened
  const clock = new MachineClock(lease)
  const names = new QueueNames(database, ns)
  const jobs = new JobTable(database, ns, names)
  const publisher = new TaskPublisher(jobs, names)
  const committer = new Committer(database, ns, jobs, names, publisher)
  const reader = new JobReader(database, ns, jobs, names)
  const lister = new JobLister(database, ns, jobs, names, reader)
  const leases = new Leases(database, lease)
  const stats = new QueueStats(database, ns, jobs, names)
  const storeTable = new StoreTable(database, ns, clock)
  const taker = new Taker(database, names, lease, clock)
  const registry = new ListenerRegistry(database, ns, clock)
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

  const notifier = new Notifier(database, registry.instance, () => {
    recheck()
    feed.read()
  })
  const waiting = new WaitingTakes(taker, clock, {
    wake: () => writer.wake(),
    onWait: () => void feed.start(QUEUES).catch(ignore),
    isWatched: () => subscriptions.watchesQueues,
  })
  const news = new NewsTable(database, ns, { registry, subscriptions, names, store: storeTable, taker, notifier })
  const writer = new Writer(database, {
    participants: [
      waiting,
      news,
      { ...passiveParticipant, rolledBack: () => names.forget(), committed: (done) => expiry.committed(done) },
    ],
    jobsWatched: () => news.jobsWatched(),
    clock,
    onStatus,
  })
  const { signal: closed } = closing
  const feed = new NewsFeed({ registry, news, notifier, writer, closing: closed, recheck: () => waiting.recheck() })
  const expiry = new StoreExpiry(storeTable, writer, () => subscriptions.watchesStore)
  const sweeper = new Sweeper(database, jobs)
  const recheck = (): void => {
    waiting.recheck()
    expiry.schedule()
  }
  const repairs = new Repairs(database, lease, clock)
  const maintenance = new Maintenance({ writer, registry, news, store: storeTable, sweeper, repairs, recheck })
  const onFileGone = (): void => {
    const error = goneError(database)
    writer.break(error)
    onGone(error)
  }
  const fileWatch = new FileWatch(database, onFileGone, () => notifier.poll())

  /**
   * Runs `run` unless this transport was closed. A read is tried again while the file is locked: after the end of a
   * process SQLite locks it for a moment, to recover the write-ahead log.
   */
  const whileOpen = async <T>(run: () => T | Promise<T>): Promise<T> => {
    fileWatch.touch()
    for (let attempt = 0; ; attempt++) {
      if (closed.aborted) throw new TransportError("closed", "this transport was closed")
      if (writer.broken !== undefined) throw writer.broken
      try {
        return await run()
      } catch (error) {
        if (!isBusy(error) || attempt >= READ_ATTEMPTS) throw faultOf(error, database.label)
      }
      await sleep(READ_PAUSE_MS)
    }
  }

  const publishHandler: ItemHandler<Posting, PostingColumns, Receipt> = {
    prepare: (posting) => publisher.prepare(posting),
    size: ({ frame }) => frame.length,
    run: (transaction, columns) => ({ status: publisher.post(transaction, columns) }),
  }
  const commitHandler: ItemHandler<Commit, PreparedCommit, Committed> = {
    prepare: (commit) => committer.prepare(commit),
    size: ({ record, post }) => post.reduce((sum, { frame }) => sum + frame.length, record?.bytes.length ?? 0),
    run: (transaction, commit) => committer.commit(transaction, commit),
  }

  const listen = (interest: Interest, listener: (news: News) => void, signal: AbortSignal): Promise<void> => {
    if (interest.kind === "queues") {
      const queues = new Set(interest.queues)
      return feed.subscribe(QUEUES, signal, () => subscriptions.onQueues(queues, listener))
    }
    const id = interest.kind === "job" ? interest.id : undefined
    return feed.subscribe(JOBS, signal, () => subscriptions.onJob(id, listener))
  }

  const store: Required<Store> = {
    get: (keys) => whileOpen(() => keys.map((key) => storeTable.get(key))),
    write: (operations) =>
      whileOpen(async () => {
        const prepared = operations.map((operation) => storeTable.prepare(operation))
        return await writer.do((transaction) => storeTable.write(transaction, prepared))
      }),
    list: (range) => whileOpen(() => storeTable.list(range)),
    watch: (prefix, listener, signal) =>
      whileOpen(async () => {
        await feed.subscribe(STORE, signal, () => subscriptions.onStore(prefix, listener))
        expiry.schedule()
      }),
    now: () => whileOpen(() => Date.now()),
  }

  const broadcast: Broadcast = {
    send: (topic, payload) =>
      whileOpen(() => {
        checkTopic(topic)
        const copy = payload.slice()
        return writer.doWithoutSync((transaction) => void transaction.announcements.push({ topic, payload: copy }))
      }),
    listen: (topic, listener, signal) =>
      whileOpen(() => {
        checkTopic(topic)
        return feed.subscribe(BROADCAST, signal, () => subscriptions.onTopic(topic, listener))
      }),
  }

  const close = async (): Promise<void> => {
    closing.abort()
    maintenance.close()
    fileWatch.close()
    expiry.close()
    waiting.close()
    if (registry.listens) await writer.doWithoutSync((transaction) => registry.unregister(transaction)).catch(ignore)
    await writer.drained()
    writer.close()
    notifier.close()
    database.close()
  }
  let ended: Promise<void> | undefined

  return {
    name: "sqlite",
    capabilities: capabilitiesOf(opened),
    store,
    broadcast,
    publish: (postings) => whileOpen(() => inChunks(writer, postings, publishHandler)),
    take: (request, signal) =>
      whileOpen(async () => {
        // A take that finds no task writes nothing, and would not notice that the disk refuses writes.
        if (writer.fault !== undefined) throw writer.fault
        return { deliveries: await waiting.take(request, signal) }
      }),
    extend: (tokens) =>
      whileOpen(() => writer.doWithoutSync((transaction) => tokens.map((token) => leases.extend(transaction, token)))),
    read: (ids, what) => whileOpen(() => reader.read(ids, what)),
    commit: (commits) => whileOpen(() => inChunks(writer, commits, commitHandler)),
    query: (query) => whileOpen(() => lister.query(query)),
    count: (state, queue, max) => whileOpen(() => lister.count(state, queue, max)),
    queues: () => whileOpen(() => stats.queues()),
    waiting: (what, max) => whileOpen(() => stats.waiting(what, max)),
    listen: (interest, listener, signal) => whileOpen(() => listen(interest, listener, signal)),
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

const passiveParticipant = {
  wants: () => false,
  join: () => undefined,
  failed: () => undefined,
}

const ignore = (): void => undefined

const goneError = ({ label, owned }: Database): TransportError =>
  new TransportError(
    "unavailable",
    `${label} was removed or replaced while it was open, and its content is lost${owned ? "" : ": open the new file and start again"}`,
  )

const checkTopic = (topic: string): void => {
  if (!TOPIC.test(topic)) throw new TransportError("invalid", `not a topic: ${JSON.stringify(topic.slice(0, 128))}`)
}
