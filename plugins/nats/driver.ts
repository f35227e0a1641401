/** One driver: the parts put together, each call refused once it was closed. */
import type { Capabilities, Driver } from "../../runtime/transport/driver.ts"
import type { ConnectOptions } from "../../runtime/transport/mod.ts"
import { closed } from "./connection/answers.ts"
import type { BoardOptions } from "./connection/config.ts"
import type { Link } from "./connection/link.ts"
import { Consumers } from "./queue/consumers.ts"
import { Mint } from "./queue/delivery.ts"
import { Leases, Ledger } from "./queue/lease.ts"
import { LONGEST_MS, Posts } from "./queue/publish.ts"
import { Turns } from "./queue/stall-guard.ts"
import { Puller } from "./queue/take.ts"
import { Committer } from "./records/commit.ts"
import { Queries } from "./records/query.ts"
import { Finder, Orphans } from "./records/read.ts"
import { Records } from "./records/records.ts"
import { Depths } from "./stats.ts"
import { NatsStore } from "./store.ts"
import { Names } from "./streams/names.ts"
import { Publisher } from "./streams/publisher.ts"
import { Reader } from "./streams/reader.ts"
import { type Board, DEDUPE_MS, ensureBoard } from "./streams/setup.ts"
import { Acceptance } from "./streams/write-health.ts"
import { listen, makeBroadcast, Subscriptions } from "./watch.ts"

/** What headers and subjects add to a message. */
const OVERHEAD = 8 * 1024

/** Traceback, timeline and whatever else a record holds beside messages. */
const RECORD_ROOM = 64 * 1024

/**
 * A record may hold the task twice (itself, and as its own successor), as base64: four thirds each. So much must fit
 * into one message, or a task could be taken in and never fail or be tried again.
 */
const maxTaskOf = (maxRecord: number): number => Math.floor(((maxRecord - RECORD_ROOM) * 3) / 8)

export const capabilitiesOf = (board: Board, maxPayload: number): Capabilities => {
  const maxRecord = maxPayload - OVERHEAD
  const { replicas, storage, bands } = board
  return {
    durability: replicas > 1 ? "quorum" : storage === "file" ? "server" : "process",
    reach: "network",
    atomic: false,
    waits: true,
    dedupeWindow: DEDUPE_MS,
    delay: LONGEST_MS,
    bands: bands.count,
    front: true,
    maxTask: maxTaskOf(maxRecord),
    maxRecord,
    leaseResolution: 250,
    dueResolution: 500,
  }
}

/** A driver over a connection that is open. Makes its streams. Closes the link when that fails. */
export const openDriver = async (link: Link, asked: BoardOptions, options: ConnectOptions): Promise<Driver> => {
  const names = new Names(options.namespace)
  try {
    const board = await ensureBoard(link, names, asked)
    // A restart of a single server leaves its memory streams behind.
    link.onStatus((status) => {
      if (status === "connected" && board.storage === "memory")
        void ensureBoard(link, names, asked).catch(() => undefined)
    })
    return assemble(link, names, board, options)
  } catch (error) {
    await link.close()
    throw error
  }
}

const assemble = (link: Link, names: Names, board: Board, { lease }: ConnectOptions): Driver => {
  const capabilities = capabilitiesOf(board, link.maxPayload)
  const { maxTask, maxRecord } = capabilities
  const replicated = board.replicas > 1
  // To remove what is not there leaves nothing behind.
  const acceptance: Acceptance = new Acceptance(link, () => store.write([{ key: "acceptance", value: null }]))
  // Apart, so that those who submit do not hold up those who finish.
  const intake = new Publisher(link, acceptance)
  const outcomes = new Publisher(link, acceptance)
  const consumers = new Consumers(link, names, board.bands, lease)
  const mint = new Mint()
  const ledger = new Ledger(mint.nonce, lease)
  const tasks = new Reader(link, names.queueStream, replicated)
  const states = new Reader(link, names.stateStream, replicated)
  const values = new Reader(link, names.storeStream, replicated)
  const records = new Records({ reader: states, names, maxRecord })
  const finder = new Finder({ names, tasks, records })
  const posts = new Posts({ publisher: intake, consumers, names, maxTask })
  const puller = new Puller({ link, mint, consumers, ledger, turns: new Turns(link, lease) })
  const committer = new Committer({ link, names, records, publisher: outcomes, posts, ledger, tasks })
  const leases = new Leases({ link, names, nonce: mint.nonce, ledger, tasks })
  const depths = new Depths({ names, consumers, records, tasks })
  const orphans = new Orphans({ names, finder, states })
  const queries = new Queries({ names, finder, records, tasks, states })
  const subscriptions = new Subscriptions(link)
  const store = new NatsStore({ link, names, reader: values, subscriptions, maxValue: maxRecord, acceptance })
  const broadcast = makeBroadcast(link, names, subscriptions)

  const open = async <T>(run: () => Promise<T>): Promise<T> => {
    if (link.closing.aborted) throw closed()
    return run()
  }

  let closing: Promise<void> | undefined

  return {
    name: "nats",
    capabilities,
    publish: (postings) => open(() => posts.publish(postings)),
    take: (request, signal) =>
      open(async () => {
        if (acceptance.refusal !== undefined) throw acceptance.refusal
        return { deliveries: await puller.take(request, signal) }
      }),
    extend: (tokens) => open(() => leases.extend(tokens)),
    read: (ids, what) =>
      open(async () => {
        if (what === "all") return finder.find(ids)
        const found = await records.read(ids)
        return ids.map((id) => {
          const record = found.get(id)
          return record && { revision: record.revision, record: record.bytes }
        })
      }),
    commit: (commits) => open(() => committer.commit(commits)),
    orphans: (before, max) => open(() => orphans.find(before, max)),
    listen: (interest, listener, signal) =>
      open(() => listen({ link, names, subscriptions }, interest, listener, signal)),
    queues: () => open(() => depths.queues()),
    waiting: (what, max) =>
      open(() => ("queue" in what ? depths.waiting(what.queue, max) : depths.expired(what.expiredBy, max))),
    query: (query) => open(() => queries.query(query)),
    store: {
      get: (keys) => open(() => store.get(keys)),
      write: (operations) => open(() => store.write(operations)),
      list: (given) => open(() => store.list(given)),
      watch: (prefix, listener, signal) => open(() => store.watch(prefix, listener, signal)),
      now: () => open(() => store.now()),
    },
    broadcast: {
      send: (topic, payload) => open(() => broadcast.send(topic, payload)),
      listen: (topic, listener, signal) => open(() => broadcast.listen(topic, listener, signal)),
    },
    onStatus: (listener) => acceptance.onStatus(listener),
    close: () => {
      closing ??= link.close(() => puller.close())
      return closing
    },
  }
}
