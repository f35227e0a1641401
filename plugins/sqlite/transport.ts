/** Puts the parts together: one open database as a transport. */
import {
  type Broadcast,
  type Capabilities,
  type Change,
  type Changed,
  type Claim,
  type Claimed,
  type Posting,
  type Queue,
  type Receipt,
  type Records,
  type Report,
  type Settled,
  type Settlement,
  type Store,
  type Transport,
  TransportError,
} from "../../runtime/transport/mod.ts"
import type { Database } from "./database/database.ts"
import { faultOf, isBusy } from "./database/fault.ts"
import { FileWatch } from "./database/file-watch.ts"
import type { Opened } from "./database/open.ts"
import { MAX_RECORD, MAX_TASK, type PostingColumns } from "./jobs/column.ts"
import { JobTable } from "./jobs/job-table.ts"
import { QueueNames } from "./jobs/name.ts"
import { Maintenance } from "./maintenance.ts"
import { Doorbell } from "./notify/doorbell.ts"
import { Listening } from "./notify/listening.ts"
import { News } from "./notify/news.ts"
import { BROADCAST, Presence, PULLS, RECORDS, STORE } from "./notify/presence.ts"
import { Subscriptions } from "./notify/subscription.ts"
import { Census } from "./queue/census.ts"
import { Leases } from "./queue/lease.ts"
import { Publisher } from "./queue/publish.ts"
import { Pulls } from "./queue/pulls.ts"
import { Taker } from "./queue/take.ts"
import { Changer, type PreparedChange } from "./records/change.ts"
import { Claimer, type PreparedClaim, type PreparedReport } from "./records/claim.ts"
import { Lister } from "./records/query.ts"
import { type PreparedSettlement, Settler } from "./records/settle.ts"
import { Sweeper } from "./records/sweep.ts"
import { StoreTable } from "./store/store.ts"
import { StoreAlarm } from "./store/store-alarm.ts"
import { type Handling, inPortions } from "./writing/portion.ts"
import { Writer } from "./writing/writer.ts"

/** A ring that is lost costs one slow look, every half second. */
const RESOLUTION_MS = 600

/** How often, and after which pause, reading is tried while the file is locked. */
const READ_ATTEMPTS = 100
const READ_PAUSE_MS = 10

const TOPIC = /^[a-z0-9.-]{1,128}$/

export const capabilitiesOf = (opened: Opened): Capabilities => ({
  durability: opened.durability,
  dedupeWindow: Number.POSITIVE_INFINITY,
  delay: true,
  priorityBands: 10,
  front: true,
  keyed: false,
  maxTask: MAX_TASK,
  maxRecord: MAX_RECORD,
  leaseResolution: RESOLUTION_MS,
  dueResolution: RESOLUTION_MS,
  reach: opened.database.path === undefined ? "process" : "host",
  atomicSettle: true,
  browse: true,
})

/** A transport, until its file is gone. */
export interface FileTransport extends Transport {
  readonly queue: Required<Queue>
  readonly records: Records
  readonly store: Store
  readonly broadcast: Broadcast
}

/** `onGone` is called once, when the file was removed or replaced; from then on everything fails with that error. */
export const transportOver = (
  opened: Opened,
  lease: number,
  onGone: (error: TransportError) => void = ignore,
): FileTransport => {
  const { database, ns } = opened
  const names = new QueueNames(database, ns)
  const jobs = new JobTable(database, ns, names)
  const publisher = new Publisher(jobs, names)
  const settler = new Settler(database, ns, jobs, names, publisher)
  const claimer = new Claimer(jobs, lease)
  const changer = new Changer(database, jobs, names, publisher)
  const leases = new Leases(database, lease)
  const lister = new Lister(database, ns, jobs, names)
  const census = new Census(database, ns, jobs, names)
  const table = new StoreTable(database, ns)
  const taker = new Taker(database, names, lease)
  const presence = new Presence(database, ns)
  const subscriptions = new Subscriptions()
  const closing = new AbortController()
  const statusListeners = new Set<Parameters<Transport["onStatus"]>[0]>()
  let connected = true

  const onStatus = (now: boolean, why?: TransportError): void => {
    if (now === connected) return
    connected = now
    for (const listener of statusListeners)
      queueMicrotask(() => (now ? listener("connected") : listener("disconnected", why)))
  }

  const doorbell = new Doorbell(database, presence.instance, () => {
    pulls.look()
    listening.read()
    alarm.set()
  })
  const pulls = new Pulls(taker, { wake: () => writer.wake(), onWait: () => void listening.start(PULLS).catch(ignore) })
  const news = new News(database, ns, { presence, subscriptions, changer, store: table, taker, doorbell })
  const writer = new Writer(database, {
    participants: [pulls, news, { ...bystander, rolledBack: () => names.forget(), committed: () => alarm.set() }],
    tells: () => news.tells(),
    onStatus,
  })
  const { signal: closed } = closing
  const listening = new Listening({ presence, news, doorbell, writer, closing: closed, look: () => pulls.look() })
  const alarm = new StoreAlarm(table, writer, () => subscriptions.watchesStore)
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

  const publishing: Handling<Posting, PostingColumns, Receipt> = {
    prepare: (posting) => publisher.prepare(posting),
    size: ({ frame }) => frame.length,
    run: (transaction, columns) => ({ status: publisher.post(transaction, columns) }),
  }
  const claiming: Handling<Claim, PreparedClaim, Claimed> = {
    prepare: (claim) => claimer.prepare(claim),
    size: () => 0,
    run: (transaction, claim) => claimer.claim(transaction, claim),
  }
  const settling: Handling<Settlement, PreparedSettlement, Settled> = {
    prepare: (settlement) => settler.prepare(settlement),
    size: ({ record }) => record?.json.length ?? 0,
    run: (transaction, settlement) => settler.settle(transaction, settlement),
  }
  const changing: Handling<Change, PreparedChange, Changed> = {
    prepare: (change) => changer.prepare(change),
    size: ({ record }) => record.json.length,
    run: (transaction, change) => changer.change(transaction, change),
  }

  /** Only the last report of each run counts; one that cannot be stored is refused after the others are. */
  const report = async (reports: ReadonlyArray<Report>): Promise<void> => {
    const last = new Map<string, PreparedReport>()
    const refused: Array<unknown> = []
    for (const each of reports) {
      try {
        last.set(each.token, claimer.prepareReport(each))
      } catch (error) {
        refused.push(error)
      }
    }
    await writer.doLightly((transaction) => {
      for (const each of last.values()) claimer.report(transaction, each)
    })
    if (refused.length > 0) throw refused[0]
  }

  const queue: Required<Queue> = {
    publish: (postings) => open(() => inPortions(writer, postings, publishing)),
    pull: (request, signal) =>
      open(() => {
        // One that finds nothing writes nothing, and would not notice.
        if (writer.ailing !== undefined) throw writer.ailing
        return pulls.pull(request, signal)
      }),
    claim: (claims) => open(() => inPortions(writer, claims, claiming)),
    report: (reports) => open(() => report(reports)),
    settle: (settlements) => open(() => inPortions(writer, settlements, settling)),
    extend: (tokens) =>
      open(() => writer.doLightly((transaction) => tokens.map((token) => leases.extend(transaction, token)))),
    stats: () => open(() => census.stats()),
    overdue: (now, max) => open(() => census.overdue(now, max)),
    waiting: (name, max) => open(() => census.waiting(name, max)),
  }

  const records: Records = {
    find: (id) => open(() => changer.find(id)),
    change: (changes) => open(() => inPortions(writer, changes, changing)),
    query: (query) => open(() => lister.query(query)),
    watch: ({ id }, listener, signal) =>
      open(() => listening.subscribe(RECORDS, signal, () => subscriptions.onRecord(id, listener))),
  }

  const store: Store = {
    get: (key) => open(() => table.get(key)),
    write: (operations) =>
      open(async () => {
        const prepared = operations.map((operation) => table.prepare(operation))
        return await writer.do((transaction) => table.write(transaction, prepared))
      }),
    list: (options) => open(() => table.list(options)),
    count: (prefix) => open(() => table.count(prefix)),
    watch: (prefix, listener, signal) =>
      open(async () => {
        await listening.subscribe(STORE, signal, () => subscriptions.onStore(prefix, listener))
        alarm.set()
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
    alarm.close()
    pulls.close()
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
    queue,
    records,
    store,
    broadcast,
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
