/** One transport: the parts put together, each call refused once it was closed. */
import { type Capabilities, type ConnectOptions, type Transport, TransportError } from "../../runtime/transport/mod.ts"
import { Changer } from "./changes.ts"
import { Claims } from "./claims.ts"
import type { BoardOptions } from "./connection/config.ts"
import { closed } from "./connection/errors.ts"
import type { Link } from "./connection/link.ts"
import { Finder } from "./finder.ts"
import { Journal } from "./journal.ts"
import { makeBroadcast } from "./news/broadcast.ts"
import { Queries } from "./query.ts"
import { Consumers } from "./queue/consumers.ts"
import { Mint } from "./queue/delivery.ts"
import { Leases } from "./queue/leases.ts"
import { Ledger } from "./queue/ledger.ts"
import { Posts } from "./queue/posts.ts"
import { Puller } from "./queue/puller.ts"
import { Turns } from "./queue/turns.ts"
import { Runs } from "./runs.ts"
import { Settler } from "./settle.ts"
import { NatsStore } from "./store/store.ts"
import { Acceptance } from "./streams/acceptance.ts"
import { type Board, DEDUPE_MS, ensureBoard } from "./streams/board.ts"
import { Names } from "./streams/names.ts"
import { Publisher } from "./streams/publisher.ts"
import { Reader } from "./streams/reader.ts"
import { Upkeep } from "./upkeep.ts"
import { Subscriptions, Watches } from "./watch.ts"

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
    dedupeWindow: DEDUPE_MS,
    delay: true,
    priorityBands: bands.count,
    front: true,
    keyed: false,
    maxTask: maxTaskOf(maxRecord),
    maxRecord,
    leaseResolution: 250,
    dueResolution: 500,
    reach: "network",
    atomicSettle: false,
    browse: true,
  }
}

/** A transport over a connection that is open. Makes its streams. Closes the link when that fails. */
export const openTransport = async (link: Link, asked: BoardOptions, options: ConnectOptions): Promise<Transport> => {
  const names = new Names(options.namespace)
  try {
    const board = await ensureBoard(link, names, asked)
    // A restart of a single server leaves its memory streams behind.
    link.onStatus((status) => {
      if (status === "connected") void ensureBoard(link, names, asked).catch(() => undefined)
    })
    return assemble(link, names, board, options)
  } catch (error) {
    await link.close()
    throw error
  }
}

const assemble = (link: Link, names: Names, board: Board, { lease }: ConnectOptions): Transport => {
  const capabilities = capabilitiesOf(board, link.maxPayload)
  const { maxTask, maxRecord } = capabilities
  const replicated = board.replicas > 1
  // To remove what is not there leaves nothing behind.
  const acceptance: Acceptance = new Acceptance(link, () => store.write([{ key: "acceptance" }]))
  // Apart, so that those who submit do not hold up those who finish.
  const intake = new Publisher(link, acceptance)
  const outcomes = new Publisher(link, acceptance)
  // In memory: nothing depends on it.
  const reports = new Publisher(link)
  const consumers = new Consumers(link, names, board.bands, lease)
  const mint = new Mint()
  const ledger = new Ledger(mint, lease)
  const tasks = new Reader(link, names.queueStream, replicated)
  const states = new Reader(link, names.stateStream, replicated)
  const running = new Reader(link, names.runStream, replicated)
  const journal = new Journal({ publisher: outcomes, reader: states, names, maxRecord })
  const runs = new Runs({ publisher: reports, reader: running, names, lease })
  const posts = new Posts({ publisher: intake, consumers, names, maxTask })
  const puller = new Puller({ link, mint, consumers, ledger, turns: new Turns(link, lease) })
  const claims = new Claims({ journal, runs, ledger })
  const settler = new Settler({ link, names, journal, posts, ledger, runs, tasks })
  const leases = new Leases({ link, ledger, tasks, runs, lease })
  const upkeep = new Upkeep({ names, consumers, journal, tasks, states })
  const finder = new Finder({ names, tasks, runs, journal })
  const changer = new Changer({ names, journal, posts, tasks })
  const queries = new Queries({ names, finder, readers: { tasks, runs: running, records: states } })
  const subscriptions = new Subscriptions(link)
  const watches = new Watches(subscriptions, names)
  const reader = new Reader(link, names.storeStream, replicated)
  const store = new NatsStore({ link, names, reader, subscriptions, maxValue: maxRecord, acceptance })
  const broadcast = makeBroadcast(link, names, subscriptions)

  const open = async <T>(run: () => Promise<T>): Promise<T> => {
    if (link.closing.aborted) throw closed()
    return run()
  }

  let closing: Promise<void> | undefined

  return {
    name: "nats",
    capabilities,
    queue: {
      publish: (postings) =>
        open(async () => {
          const results = await posts.publish(postings.map((posting) => ({ posting, recorded: false })))
          return results.map((result) => {
            if (result.status === "failed") return result
            if (result.status === "stored") return { status: result.duplicate ? "duplicate" : "stored" }
            return { status: "failed", error: new TransportError("internal", "the server refused without reason") }
          })
        }),
      pull: (request, signal) =>
        open(async () => {
          if (acceptance.refusal !== undefined) throw acceptance.refusal
          return puller.pull(request, signal)
        }),
      claim: (batch) => open(() => claims.claim(batch)),
      report: (batch) => open(() => claims.report(batch)),
      settle: (batch) => open(() => settler.settle(batch)),
      extend: (tokens) => open(() => leases.extend(tokens)),
      stats: () => open(() => upkeep.stats()),
      overdue: (now, max) => open(() => upkeep.overdue(now, max)),
      waiting: (queue, max) => open(() => upkeep.waiting(queue, max)),
    },
    records: {
      find: (id) => open(() => finder.find(id)),
      change: (batch) => open(() => changer.change(batch)),
      stranded: (before, max) => open(() => upkeep.stranded(before, max)),
      query: (query) => open(() => queries.query(query)),
      watch: ({ id }, listener, signal) => open(() => watches.watch(id, listener, signal)),
    },
    store: {
      get: (key) => open(() => store.get(key)),
      write: (operations) => open(() => store.write(operations)),
      list: (given) => open(() => store.list(given)),
      count: (prefix) => open(() => store.count(prefix)),
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
