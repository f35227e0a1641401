/** The driver of the redis transport: each method runs one script in the server and translates the reply. */
import { isMap } from "../../runtime/protocol/guards.ts"
import type * as contract from "../../runtime/transport/mod.ts"
import { BaseDriver, matches, TransportError } from "../../runtime/transport/mod.ts"
import { answerTogether, type Failed } from "../../runtime/transport/plain-driver.ts"
import { SEPARATOR } from "./envelope.ts"
import { type Argument, explain, type Library, openLink, type RedisLink, type Reply } from "./link.ts"
import * as queueScripts from "./queue-scripts.ts"
import * as recordScripts from "./record-scripts.ts"
import {
  Arguments,
  committedOf,
  deliveryOf,
  entryOf,
  indexText,
  isBefore,
  keysOf,
  knownOf,
  listOf,
  memberOf,
  plainIndex,
  replyText,
  rowOf,
} from "./replies.ts"
import { DEDUPE_MS, type Script } from "./scripts.ts"
import type { RedisSettings } from "./settings.ts"
import * as storeScripts from "./store-scripts.ts"

/** What a board on a Redis server can do. `durability`: what the settings of the server give, see `durabilityOf`. */
export const capabilitiesOf = (durability: contract.Capabilities["durability"]): contract.Capabilities => ({
  durability,
  reach: "network",
  atomic: true,
  waits: false,
  dedupeWindow: DEDUPE_MS,
  delay: Number.POSITIVE_INFINITY,
  bands: 4,
  front: true,
  maxTask: 4 * 1024 * 1024,
  maxRecord: 16 * 1024 * 1024,
  leaseResolution: 50,
  dueResolution: 50,
})

/** Milliseconds between two runs of the script `sweep`. */
const SWEEP_MS = 1_000

/** How many tasks or commits one script stores at most; the server answers nothing else while a script runs. */
const PART = 32

/** How many jobs one step of a search reads at most. */
const PORTION = 500

/** What follows the queue's name in the keys of its four lists. */
const STEPS = ["", `${SEPARATOR}3`, `${SEPARATOR}6`, `${SEPARATOR}9`]

type Channel = "jobs" | "store"
type StoreChange = { readonly key: string; readonly value?: Uint8Array }

export const connectRedis = async (
  library: Library,
  settings: RedisSettings,
  options: contract.ConnectOptions,
): Promise<RedisDriver> => {
  const driver = new RedisDriver(library, settings, options)
  return driver.start()
}

export class RedisDriver extends BaseDriver<RedisLink> implements contract.Driver {
  readonly name = "redis"
  readonly #library: Library
  readonly #settings: RedisSettings
  /** How durable the server's settings make its files; read at each connection. */
  #capabilities = capabilitiesOf("process")
  /** The queue of each watched key. */
  readonly #watched = new Map<string, string>()
  /** How many listeners each queue has. */
  readonly #queueListeners = new Map<string, number>()
  /** The channels to which this driver has subscribed, each with the connection that holds the subscription. */
  readonly #subscribed = new Map<Channel, { readonly link: RedisLink; readonly done: Promise<void> }>()
  readonly #watchers = new Set<{ readonly prefix: string; readonly listener: (change: StoreChange) => void }>()
  /** Changed keys of the store that have yet to be read. */
  #unread = new Set<string>()
  #reading = false
  /** Where the next sweep begins among the queued jobs (`-` is the beginning), and among the keys of the server. */
  #sweepFrom: readonly [jobs: string, keys: string] = ["-", "0"]

  constructor(library: Library, settings: RedisSettings, options: contract.ConnectOptions) {
    super(options)
    this.#library = library
    this.#settings = settings
  }

  get capabilities(): contract.Capabilities {
    return this.#capabilities
  }

  protected async open(lost: (why: unknown) => void, signal: AbortSignal): Promise<RedisLink> {
    const { client, prefix, own } = this.#settings
    const changed = (key: string | undefined) => this.#changed(link, key)
    const link: RedisLink = await openLink(this.#library, client, [prefix, own], { lost, changed }, signal)
    this.#capabilities = capabilitiesOf(await durabilityOf(link))
    await link.run(queueScripts.open)
    await link.subscribe(`${own}cast`, (payload) => this.#announced(payload))
    await Promise.all([...this.#subscribed.keys()].map((channel) => this.#subscribeTo(link, channel)))
    if (this.#watched.size > 0) await link.watch([...this.#watched.keys()])
    return this.#sweepRegularly(link)
  }

  protected explain(error: unknown): TransportError {
    return explain(this.#library)(error)
  }

  protected tick(link: RedisLink): Promise<unknown> {
    return Promise.all([link.ping(), link.command("SET", `${this.#settings.own}probe`, "")])
  }

  /**
   * Moves tasks that have fallen due into the lists, where Celery's workers find them too, and removes what has ended.
   */
  #sweepRegularly(link: RedisLink): RedisLink {
    const { prefix, visibilityTimeout } = this.#settings
    const bindings = `${prefix.replace(/[*?[\]\\]/g, "\\$&")}_kombu.binding.*`
    let sweeping = false
    const sweep = async () => {
      if (sweeping) return
      sweeping = true
      try {
        const [jobs, keys] = this.#sweepFrom
        const listened = JSON.stringify([...this.#queueListeners.keys()])
        const next = listOf(await link.run(queueScripts.sweep, jobs, visibilityTimeout, keys, bindings, listened))
        this.#sweepFrom = [replyText(next[0]), replyText(next[1])]
      } finally {
        sweeping = false
      }
    }
    const timer = setInterval(() => void sweep().catch(() => undefined), SWEEP_MS)
    timer.unref?.()
    return {
      ...link,
      close: () => {
        clearInterval(timer)
        return link.close()
      },
    }
  }

  #run(script: Script, ...args: ReadonlyArray<Argument>): Promise<Reply> {
    return this.call((link) => link.run(script, ...args))
  }

  // ── Notifications ─────────────────────────────────────────────────────────────────────────────────────────────────

  override async listen(...args: Parameters<contract.Driver["listen"]>): Promise<void> {
    const [interest, , signal] = args
    await super.listen(...args)
    if (signal.aborted) return
    if (interest.kind !== "queues") return this.call((link) => this.#subscribeTo(link, "jobs"))
    for (const queue of interest.queues) this.#queueListeners.set(queue, (this.#queueListeners.get(queue) ?? 0) + 1)
    const stop = () => {
      for (const queue of interest.queues) {
        const left = (this.#queueListeners.get(queue) ?? 1) - 1
        if (left > 0) this.#queueListeners.set(queue, left)
        else this.#queueListeners.delete(queue)
      }
    }
    AbortSignal.any([signal, this.closing.signal]).addEventListener("abort", stop, { once: true })
    const keys = interest.queues.flatMap((queue) => this.#keysOf(queue))
    for (const [key, queue] of keys) this.#watched.set(key, queue)
    await this.call((link) => link.watch(keys.map(([key]) => key)))
  }

  #keysOf(queue: string): ReadonlyArray<readonly [key: string, queue: string]> {
    const { prefix, own } = this.#settings
    return [...STEPS.map((step) => `${prefix}${queue}${step}`), `${own}l:${queue}`].map((key) => [key, queue])
  }

  /**
   * The server announces one change of a key. The key is watched again before a listener is called, so that no change is
   * missed.
   */
  #changed(link: RedisLink, key: string | undefined): void {
    const queue = this.#watched.get(key ?? "")
    if (key === undefined) this.emit({ kind: "missed" })
    else if (queue === undefined) return
    else if (this.#queueListeners.has(queue)) {
      link.watch([key]).catch(() => undefined)
      this.emit({ kind: "queue", queue })
    } else {
      this.#watched.delete(key)
    }
  }

  #subscribeTo(link: RedisLink, channel: Channel): Promise<void> {
    const known = this.#subscribed.get(channel)
    if (known?.link === link) return known.done
    const done = link.subscribe(`${this.#settings.own}${channel}`, (payload) => {
      const names: unknown = JSON.parse(replyText(payload))
      if (!Array.isArray(names)) return
      if (channel === "jobs") for (const id of names) this.emit({ kind: "job", id: String(id) })
      else this.#stored(names.map(String))
    })
    this.#subscribed.set(channel, { link, done })
    return done
  }

  /** Reads changed keys of the store, one read after the other, so that a watcher gets the latest value last. */
  #stored(keys: ReadonlyArray<string>): void {
    for (const key of keys) if ([...this.#watchers].some(({ prefix }) => key.startsWith(prefix))) this.#unread.add(key)
    if (this.#reading || this.#unread.size === 0) return
    this.#reading = true
    const read = async () => {
      while (this.#unread.size > 0) {
        const wanted = [...this.#unread]
        this.#unread = new Set()
        const entries = await this.store.get(wanted)
        for (const [at, key] of wanted.entries()) {
          const entry = entries[at]
          for (const { prefix, listener } of this.#watchers) {
            if (key.startsWith(prefix)) listener(entry === undefined ? { key } : { key, value: entry.value.slice() })
          }
        }
      }
    }
    // Nothing is lost where a read fails: after an outage watchers read everything again.
    void read()
      .catch(() => this.#unread.clear())
      .finally(() => {
        this.#reading = false
      })
  }

  readonly broadcast = this.createBroadcast((topic, payload) => {
    const bytes = Buffer.concat([Buffer.from(`${topic} `), payload])
    return this.call((link) => link.command("PUBLISH", `${this.#settings.own}cast`, bytes))
  })

  #announced(bytes: Uint8Array): void {
    const end = bytes.indexOf(0x20)
    this.emitAnnouncement(replyText(bytes.subarray(0, end)), bytes.subarray(end + 1))
  }

  // ── Tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  protected publishChecked(link: RedisLink, postings: ReadonlyArray<contract.Posting>) {
    return this.#inParts(postings, async (part): Promise<ReadonlyArray<contract.Receipt | Failed>> => {
      const args = new Arguments()
      const prepare = (posting: contract.Posting) => args.posting(posting)
      return answerTogether(part, prepare, async (posted): Promise<ReadonlyArray<contract.Receipt>> => {
        const answers = listOf(await link.run(queueScripts.publish, ...args.after(posted)))
        return answers.map((answer) => ({ status: answer === 1 ? "stored" : "duplicate" }))
      })
    })
  }

  /**
   * Runs a script for parts of the items. All parts are sent at once, so the server has the next part while the last reply
   * is on its way. A part that fails does not fail the others.
   */
  async #inParts<I, A>(
    items: ReadonlyArray<I>,
    run: (part: ReadonlyArray<I>) => Promise<ReadonlyArray<A | Failed>>,
  ): Promise<ReadonlyArray<A | Failed>> {
    if (items.length <= PART) return run(items)
    const answers: Array<Promise<ReadonlyArray<A | Failed>>> = []
    for (let at = 0; at < items.length; at += PART) {
      const part = items.slice(at, at + PART)
      const failed = (error: unknown): ReadonlyArray<Failed> => {
        const why = error instanceof TransportError ? error : this.explain(error)
        return part.map(() => ({ status: "failed", error: why }))
      }
      answers.push(run(part).catch(failed))
    }
    return (await Promise.all(answers)).flat()
  }

  protected async takeNow(link: RedisLink, { queues, max, rotate }: contract.TakeRequest): Promise<contract.Taken> {
    const { lease } = this.options
    const taken = await link.run(queueScripts.take, max, rotate ? 1 : max, lease, JSON.stringify(queues))
    if (typeof taken === "number") return taken < 0 ? { deliveries: [] } : { deliveries: [], next: taken }
    const answers = listOf(taken)
    const deliveries: Array<contract.Delivery> = []
    for (let at = 0; at < answers.length; at += 2) deliveries.push(deliveryOf(answers[at], answers[at + 1], queues))
    return { deliveries }
  }

  protected handBack(link: RedisLink, deliveries: ReadonlyArray<contract.Delivery>): Promise<unknown> {
    return link.run(queueScripts.handBack, ...deliveries.map(({ token }) => token))
  }

  async extend(tokens: ReadonlyArray<string>): Promise<ReadonlyArray<boolean>> {
    return listOf(await this.#run(queueScripts.extend, this.options.lease, ...tokens)).map((answer) => answer === 1)
  }

  // ── Records ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async read(ids: ReadonlyArray<string>, what: "record" | "all"): Promise<ReadonlyArray<contract.Known | undefined>> {
    return listOf(await this.#run(recordScripts.read, what, ...ids)).map(knownOf)
  }

  protected commitChecked(link: RedisLink, commits: ReadonlyArray<contract.Commit>) {
    return this.#inParts(commits, (part) => this.#commitPart(link, part))
  }

  #commitPart(
    link: RedisLink,
    commits: ReadonlyArray<contract.Commit>,
  ): Promise<ReadonlyArray<contract.Committed | Failed>> {
    const args = new Arguments()
    const prepare = ({ id, record, post, task, unique }: contract.Commit) => ({
      id,
      ...(record && {
        record: {
          expect: record.expect,
          bytes: args.put(record.bytes),
          ...(record.keep === undefined ? {} : { keep: Math.ceil(record.keep) }),
          ...(record.index.hidden ? {} : { index: indexText(record.index) }),
        },
      }),
      ...(post && { post: post.map((posting) => args.posting(posting)) }),
      ...(task && { task }),
      ...(unique && { unique }),
    })
    return answerTogether(commits, prepare, async (asked) =>
      listOf(await link.run(recordScripts.commit, ...args.after(asked))).map(committedOf),
    )
  }

  // ── Lists ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  query(query: contract.Query): Promise<contract.FoundJobs> {
    const {
      since = 0,
      until,
      limit,
      after,
      budget: _budget,
      signal: _signal,
      bare: _bare,
      idEnds = "",
      ...filter
    } = query
    const wanted = plainIndex(filter)
    const keys = keysOf(wanted)
    let portion = Math.min(4 * limit, PORTION)
    return this.search(query, async (from = until === undefined ? "+" : `(${memberOf(until, "")}`, max) => {
      if (after !== undefined && !/^\(\d{16}:/.test(from)) {
        throw new TransportError("invalid", `not a cursor of redis: ${from.slice(0, 40)}`)
      }
      const min = `[${memberOf(since, "")}`
      const isFirst = after === undefined ? 1 : 0
      const rows = await this.#run(recordScripts.scan, JSON.stringify(keys), from, min, portion, isFirst)
      const found = new Map(listOf(rows).map((row) => rowOf(row)))
      // A job that is the root itself is listed under no root, so it is read by its id.
      const root =
        wanted.root === undefined ? [] : listOf(await this.#run(recordScripts.membersOf, wanted.root)).map(rowOf)
      for (const [member, index] of root) {
        if (index !== undefined && (from === "+" || isBefore(member, from.slice(1)))) found.set(member, index)
      }
      const inOrder = [...found].sort(([a], [b]) => (isBefore(a, b) ? 1 : -1))
      const ids: Array<string> = []
      let read = 0
      for (const [member, index] of inOrder.slice(0, portion)) {
        read++
        const id = member.slice(17)
        if (index !== undefined && matches(index, wanted) && id.toLowerCase().endsWith(idEnds.toLowerCase()))
          ids.push(id)
        const isFull = ids.length === max
        const isLast = read === inOrder.length && inOrder.length < portion
        if (isLast) break
        if (isFull || read === portion) return { ids, next: `(${member}`, read }
      }
      portion = PORTION
      return { ids, read }
    })
  }

  async count(state: contract.Index["state"], queue?: string): Promise<number | undefined> {
    if (state === "succeeded") return undefined
    const counted = ["failed", "cancelled", "expired", "deferred"].includes(state)
    if (queue !== undefined && !counted) return undefined
    const found = await this.#run(recordScripts.count, queue === undefined ? `s:${state}` : `c:${state}:${queue}`)
    return Number(found)
  }

  async queues(): Promise<ReadonlyArray<contract.QueueDepth>> {
    return listOf(await this.#run(queueScripts.queueDepths)).map((row) => {
      const [queue = "", ready, scheduled, held, oldest] = listOf(row)
      const counts = { ready: Number(ready), scheduled: Number(scheduled), held: Number(held) }
      return { queue: replyText(queue), ...counts, ...(typeof oldest === "number" ? { oldest } : {}) }
    })
  }

  async waiting(what: Parameters<contract.QueueBrowser["waiting"]>[0], max: number): Promise<ReadonlyArray<string>> {
    const which = "queue" in what ? (["queue", what.queue] as const) : (["expired", what.expiredBy] as const)
    return listOf(await this.#run(queueScripts.waiting, max, ...which)).map(replyText)
  }

  // ── What workers share ────────────────────────────────────────────────────────────────────────────────────────────

  readonly store = this.createStore({
    get: async (keys) => listOf(await this.#run(storeScripts.getEntries, ...keys)).map(entryOf),
    write: async (operations) => {
      const args = new Arguments()
      const asked = operations.map(({ key, value, expect, ttl }) => ({
        key,
        ...(value === null ? { removes: true } : value === undefined ? {} : { value: args.put(value) }),
        ...(expect === undefined ? {} : { expect }),
        ...(ttl === undefined ? {} : { ttl }),
      }))
      const answers = await this.#run(storeScripts.writeEntries, ...args.after(asked))
      return answers === null ? "conflict" : listOf(answers).map(replyText)
    },
    list: async ({ prefix, after, limit, reverse = false }) => {
      const isWithin = after !== undefined && Buffer.compare(Buffer.from(after), Buffer.from(prefix)) >= 0
      // No byte of UTF-8 is 255, so a bound that ends in it lies behind every text that begins with the prefix.
      const [min, max] = [`[${prefix}`, Buffer.concat([Buffer.from(`(${prefix}`), Uint8Array.of(255)])]
      const bounds = [!reverse && isWithin ? `(${after}` : min, reverse && after !== undefined ? `(${after}` : max]
      const rows = listOf(await this.#run(storeScripts.listEntries, ...bounds, limit, reverse ? 1 : 0))
      return rows.map(entryOf).filter((entry) => entry !== undefined)
    },
    now: async () => Number(await this.#run(queueScripts.open)),
    watch: async (prefix, listener, signal) => {
      this.subscribe(this.#watchers, { prefix, listener }, signal)
      await this.call((link) => this.#subscribeTo(link, "store"))
    },
  })
}

/**
 * The durability that follows from the server's settings for its files, which managed servers often hide. With
 * `everysec` the server replies before it writes while the sync of the second before still runs: a sudden end loses up
 * to two seconds.
 */
const durabilityOf = async (link: RedisLink): Promise<contract.Capabilities["durability"]> => {
  let found: Reply
  try {
    found = await link.command("CONFIG", "GET", "append*", "maxmemory*")
  } catch {
    return "process"
  }
  const settings = pairsOf(found)
  if (settings.get("maxmemory") !== "0" && settings.get("maxmemory-policy")?.startsWith("allkeys")) {
    const what = `maxmemory-policy ${settings.get("maxmemory-policy")} deletes tasks when the memory is full`
    throw new TransportError("unsupported", `redis: ${what}: set it to noeviction`)
  }
  if (settings.get("appendonly") !== "yes") return "process"
  const synced = settings.get("appendfsync")
  return synced === "always" ? "fsync" : synced === "no" ? "server" : "process"
}

const pairsOf = (reply: Reply): ReadonlyMap<string, string> => {
  const pairs: Array<[string, string]> = []
  if (isMap(reply)) for (const [name, value] of Object.entries(reply)) pairs.push([name, String(value)])
  return new Map(pairs)
}
