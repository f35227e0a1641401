/** Builds the driver over one connection out of its parts; once it is closed, every call fails. */
import type { Capabilities, Driver } from "../../runtime/transport/driver.ts"
import { type ConnectOptions, TransportError } from "../../runtime/transport/mod.ts"
import { closed, textAt } from "./connection/answers.ts"
import type { StreamOptions } from "./connection/config.ts"
import type { NatsLink } from "./connection/link.ts"
import { ServerClock } from "./connection/server-clock.ts"
import { Consumers } from "./queue/consumers.ts"
import { DeliveryFactory } from "./queue/delivery.ts"
import { DeliveryTracker, Leases } from "./queue/lease.ts"
import { Backlog, MAX_MS, TaskPublisher } from "./queue/publish.ts"
import { StallGuard } from "./queue/stall-guard.ts"
import { Taker } from "./queue/take.ts"
import { Committer } from "./records/commit.ts"
import { JobLister } from "./records/query.ts"
import { JobReader, OrphanFinder } from "./records/read.ts"
import { Records } from "./records/records.ts"
import { QueueStats } from "./stats.ts"
import { NatsStore } from "./store.ts"
import { Names } from "./streams/names.ts"
import { StreamPublisher } from "./streams/publisher.ts"
import { StreamReader } from "./streams/reader.ts"
import { DEDUPE_MS, ensureStreams, type StreamSettings } from "./streams/setup.ts"
import { WriteHealth } from "./streams/write-health.ts"
import { listen, makeBroadcast, Subscriptions } from "./watch.ts"

/** Room for the headers and the subject of a message, in bytes. */
const OVERHEAD = 8 * 1024

/** Room for what a record holds besides messages (traceback, timeline), in bytes. */
const RECORD_ROOM = 64 * 1024

/**
 * A record may hold the task twice (itself, and as its own successor), in base64, which takes four thirds of the bytes.
 * Both must fit into one message: otherwise a task could be accepted whose failure or retry cannot be stored.
 */
const maxTaskOf = (maxRecord: number): number => Math.floor(((maxRecord - RECORD_ROOM) * 3) / 8)

export const capabilitiesOf = (settings: StreamSettings, maxPayload: number): Capabilities => {
  const maxRecord = maxPayload - OVERHEAD
  const { replicas, storage, bands } = settings
  return {
    durability: replicas > 1 ? "quorum" : storage === "file" ? "server" : "process",
    reach: "network",
    atomic: false,
    waits: true,
    dedupeWindow: DEDUPE_MS,
    delay: MAX_MS,
    bands: bands.count,
    front: true,
    maxTask: maxTaskOf(maxRecord),
    maxRecord,
    leaseResolution: 250,
    dueResolution: 500,
    sharedLease: true,
  }
}

/** A driver over an open connection; creates the streams that are missing. Closes the link when that fails. */
export const openDriver = async (link: NatsLink, asked: StreamOptions, options: ConnectOptions): Promise<Driver> => {
  const names = new Names(options.namespace)
  try {
    const settings = await ensureStreams(link, names, asked)
    // A single server that restarts loses the streams that it keeps in memory, so that they are created again.
    link.onStatus((status) => {
      if (status === "connected" && settings.storage === "memory")
        void ensureStreams(link, names, asked).catch(() => undefined)
    })
    const clock = new ServerClock(async () => {
      const time = Date.parse(textAt(await link.api(`STREAM.INFO.${names.queueStream}`), "ts"))
      if (Number.isFinite(time)) return time
      throw new TransportError("internal", "the server does not report its time: use nats-server 2.12 or later")
    })
    // One question: while a cluster elects its leaders each answer may take seconds.
    await clock.measure(1)
    return assemble({ link, names, settings, clock }, options)
  } catch (error) {
    await link.close()
    throw error
  }
}

interface Opened {
  readonly link: NatsLink
  readonly names: Names
  readonly settings: StreamSettings
  readonly clock: ServerClock
}

const assemble = ({ link, names, settings, clock }: Opened, { lease }: ConnectOptions): Driver => {
  const capabilities = capabilitiesOf(settings, link.maxPayload)
  const { maxTask, maxRecord } = capabilities
  const replicated = settings.replicas > 1
  // The probe removes a key that does not exist: a small write that leaves nothing behind.
  const writeHealth: WriteHealth = new WriteHealth(link, () => store.write([{ key: "acceptance", value: null }]))
  // Tasks and records have a window each, so that many submissions do not delay the ends of jobs.
  const taskMessages = new StreamPublisher(link, writeHealth)
  const recordMessages = new StreamPublisher(link, writeHealth)
  const consumers = new Consumers(link, names, settings.bands, lease)
  const deliveryFactory = new DeliveryFactory(maxTask)
  const tracker = new DeliveryTracker(deliveryFactory.nonce, lease)
  const tasks = new StreamReader(link, names.queueStream, replicated)
  const states = new StreamReader(link, names.stateStream, replicated)
  const index = new StreamReader(link, names.indexStream, replicated)
  const values = new StreamReader(link, names.storeStream, replicated)
  const records = new Records({ states, index, names, maxRecord })
  const jobReader = new JobReader({ names, tasks, records, consumers, maxTask })
  const backlog = settings.maxBacklog === undefined ? undefined : new Backlog(tasks, settings.maxBacklog)
  const taskPublisher = new TaskPublisher({ publisher: taskMessages, consumers, names, maxTask, backlog, clock })
  const stallGuard = new StallGuard(link, lease, clock)
  const taker = new Taker({ link, deliveryFactory, consumers, tracker, stallGuard, clock })
  const publisher = recordMessages
  const committer = new Committer({ link, names, records, publisher, taskPublisher, tracker, tasks, clock })
  const leases = new Leases({ link, names, nonce: deliveryFactory.nonce, tracker, tasks, clock })
  const stats = new QueueStats({ names, consumers, records, tasks })
  const orphans = new OrphanFinder({ names, jobReader, index })
  const lister = new JobLister({ names, jobReader, records, tasks, states, index, clock })
  const subscriptions = new Subscriptions(link)
  const store = new NatsStore({ link, names, reader: values, subscriptions, maxValue: maxRecord, writeHealth, clock })
  const broadcast = makeBroadcast(link, names, subscriptions)

  const whileOpen = <T>(run: () => Promise<T>): Promise<T> => (link.closing.aborted ? Promise.reject(closed()) : run())

  let closing: Promise<void> | undefined

  return {
    name: "nats",
    capabilities,
    publish: (postings) => whileOpen(() => taskPublisher.publish(postings)),
    take: (request, signal) =>
      whileOpen(async () => {
        if (writeHealth.fault !== undefined) throw writeHealth.fault
        return { deliveries: await taker.take(request, signal) }
      }),
    extend: (tokens) => whileOpen(() => leases.extend(tokens)),
    read: (ids, what) =>
      whileOpen(async () => {
        if (what === "all") return jobReader.read(ids)
        const found = await records.read(ids)
        return ids.map((id) => {
          const record = found.get(id)
          return record && { revision: record.revision, record: record.bytes }
        })
      }),
    commit: (commits) => whileOpen(() => committer.commit(commits)),
    orphans: (before, max, parked) =>
      whileOpen(async () => {
        // Regular maintenance calls this, and is the time for the store as well.
        await store.sweep()
        return orphans.find(before, max, parked)
      }),
    listen: (interest, listener, signal) =>
      whileOpen(() => listen({ link, names, subscriptions }, interest, listener, signal)),
    queues: () => whileOpen(() => stats.queues()),
    waiting: (what, max) =>
      whileOpen(() => ("queue" in what ? stats.waiting(what.queue, max) : stats.expired(what.expiredBy, max))),
    query: (query) => whileOpen(() => lister.query(query)),
    count: (state, queue, max) => whileOpen(() => lister.count(state, queue, max)),
    store: {
      get: (keys) => whileOpen(() => store.get(keys)),
      write: (operations) => whileOpen(() => store.write(operations)),
      list: (given) => whileOpen(() => store.list(given)),
      watch: (prefix, listener, signal) => whileOpen(() => store.watch(prefix, listener, signal)),
      now: () => whileOpen(() => store.now()),
    },
    broadcast: {
      send: (topic, payload) => whileOpen(() => broadcast.send(topic, payload)),
      listen: (topic, listener, signal) => whileOpen(() => broadcast.listen(topic, listener, signal)),
    },
    onStatus: (listener) => writeHealth.onStatus(listener),
    close: () => {
      closing ??= link.close(() => taker.close())
      return closing
    },
  }
}
