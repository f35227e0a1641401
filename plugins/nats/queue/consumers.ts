/**
 * Durable consumers, one per queue and band, created by the first publisher or worker that uses them. A queue is known
 * by its consumers, so that it stays listed when it is empty.
 */
import { sleep } from "../../../runtime/transport/timers.ts"
import { type ApiError, CODE, fromApiError, listAt, numberAt, textAt } from "../connection/answers.ts"
import { ANSWER_MS, type NatsLink } from "../connection/link.ts"
import type { Bands, Names } from "../streams/names.ts"

/** One band of one queue, and its consumer. */
export interface Lane {
  readonly queue: string
  /** Lowest level of the band. */
  readonly band: number
  readonly consumer: string
  /** Subject of pull requests. */
  readonly next: string
  /** How its acknowledgement subjects begin, unless the server is configured to use longer ones (see `delivery.ts`). */
  readonly acks: string
  /** Whether its consumer is known to exist. */
  made: boolean
  /** Whether its consumer has had the chance to get this transport's lease. */
  leased: boolean
  /** Highest sequence that this transport has received. */
  highest: number
  /** Whether it had no task at the last fetch. */
  quiet: boolean
}

/** Whether no task can be taken from a lane yet: its consumer is missing, or may have another lease. */
export const isAway = ({ made, leased }: Lane): boolean => !made || !leased

/** The server's numbers of a lane. */
export interface LaneInfo {
  readonly queue: string
  readonly band: number
  readonly consumer: string
  /** Messages that were never delivered. */
  readonly pending: number
  /** Messages that were delivered and not acknowledged, including those that wait to be delivered again. */
  readonly inFlight: number
  /** Highest delivered sequence of the stream. */
  readonly delivered: number
}

/** Most pull requests that wait at one consumer; every worker parks one. The server's default is 512. */
const MAX_WAITING = 16_384

/**
 * How long to wait before a deleted consumer is created again. Created at once, it may inherit the pending deliveries
 * of the deleted one, and deliver them only after a lease (nats-server 2.15.1).
 */
const REST_MS = 150

const nanos = (ms: number): number => ms * 1_000_000

export class Consumers {
  readonly bands: Bands
  readonly #link: NatsLink
  readonly #names: Names
  readonly #lease: number
  readonly #lanes = new Map<string, ReadonlyArray<Lane>>()
  readonly #making = new Map<Lane, Promise<void>>()
  #lostAt = Number.NEGATIVE_INFINITY

  constructor(link: NatsLink, names: Names, bands: Bands, lease: number) {
    this.#link = link
    this.#names = names
    this.bands = bands
    this.#lease = lease
  }

  /** The lane of a level from 0 to 10, the front. */
  lane(queue: string, level: number): Lane {
    const lanes = this.lanesOf(queue)
    return lanes[this.bands.place(level)] ?? this.#lane(queue, this.bands.of(level))
  }

  /** All lanes of a queue, the front first. */
  lanesOf(queue: string): ReadonlyArray<Lane> {
    let lanes = this.#lanes.get(queue)
    if (lanes === undefined) {
      lanes = this.bands.levels.map((band) => this.#lane(queue, band))
      this.#lanes.set(queue, lanes)
    }
    return lanes
  }

  #lane(queue: string, band: number): Lane {
    const consumer = this.#names.consumer(queue, band)
    const stream = this.#names.queueStream
    const next = this.#link.apiSubject(`CONSUMER.MSG.NEXT.${stream}.${consumer}`)
    const acks = `$JS.ACK.${stream}.${consumer}.`
    return { queue, band, consumer, next, acks, made: false, leased: false, highest: 0, quiet: false }
  }

  /**
   * Creates the consumers that are missing. One that exists keeps its lease: what only publishes has no say in how long
   * a task belongs to a worker.
   */
  async ensure(lanes: ReadonlyArray<Lane>): Promise<void> {
    const missing = lanes.filter((lane) => !lane.made)
    if (missing.length > 0) await Promise.all(missing.map((lane) => this.#make(lane)))
  }

  /** Like {@link ensure}, for a transport that takes tasks: the consumers get its lease, as far as that is safe. */
  async ensureLeased(lanes: ReadonlyArray<Lane>): Promise<void> {
    const away = lanes.filter(isAway)
    if (away.length === 0) return
    // Each by itself: one that is out of reach must not keep the others from theirs.
    const results = await Promise.allSettled(
      away.map(async (lane) => {
        await this.ensure([lane])
        if (!lane.leased) await this.#adjustLease(lane)
      }),
    )
    for (const result of results) if (result.status === "rejected") throw result.reason
  }

  /** To be called when the server answers that a lane's consumer does not exist. */
  lost(lane: Lane): void {
    lane.made = false
    lane.leased = false
    this.#lostAt = performance.now()
  }

  /** The server's numbers of all lanes, or of those of one queue. */
  async list(queue?: string): Promise<ReadonlyArray<LaneInfo>> {
    if (queue !== undefined) {
      const infos = await Promise.all(this.lanesOf(queue).map((lane) => this.#info(lane)))
      return infos.flatMap((info) => (info === undefined ? [] : this.#read(info)))
    }
    const lanes: Array<LaneInfo> = []
    const name = `CONSUMER.LIST.${this.#names.queueStream}`
    for (let offset = 0; ; ) {
      const answer = await this.#link.api(name, { offset })
      const consumers = listAt(answer, "consumers")
      for (const info of consumers) lanes.push(...this.#read(info))
      offset += consumers.length
      if (consumers.length === 0 || offset >= numberAt(answer, "total")) return lanes
    }
  }

  #read(info: unknown): ReadonlyArray<LaneInfo> {
    const filter = textAt(info, "config", "filter_subject")
    const address = this.#names.parseTask(filter)
    if (address === undefined || !filter.startsWith(`${this.#names.namespace}.j.`)) return []
    return [
      {
        queue: address.queue,
        band: address.band,
        consumer: textAt(info, "name"),
        pending: numberAt(info, "num_pending"),
        inFlight: numberAt(info, "num_ack_pending"),
        delivered: numberAt(info, "delivered", "stream_seq"),
      },
    ]
  }

  #make(lane: Lane): Promise<void> {
    let making = this.#making.get(lane)
    if (making === undefined) {
      making = this.#makeNow(lane).finally(() => this.#making.delete(lane))
      this.#making.set(lane, making)
    }
    return making
  }

  async #makeNow(lane: Lane): Promise<void> {
    const rest = this.#lostAt + REST_MS - performance.now()
    if (rest > 0) await sleep(rest)
    // Creating a consumer that exists with the same configuration, and so with the same lease, succeeds.
    const error = await this.#put(lane, "create")
    if (error !== undefined && error.err_code !== CODE.consumerExists)
      throw fromApiError(error, `CONSUMER.CREATE.${lane.consumer}`)
    lane.made = true
    lane.leased = error === undefined
  }

  async #info({ consumer }: Lane): Promise<unknown> {
    const name = `CONSUMER.INFO.${this.#names.queueStream}.${consumer}`
    const { answer, error } = await this.#link.tryApi(name)
    if (error === undefined) return answer
    if (error.err_code === CODE.consumerNotFound) return undefined
    throw fromApiError(error, name)
  }

  async #put({ queue, band, consumer }: Lane, action: "create" | "update"): Promise<ApiError | undefined> {
    const stream = this.#names.queueStream
    const config = {
      durable_name: consumer,
      name: consumer,
      filter_subject: this.#names.band(queue, band),
      ack_policy: "explicit",
      deliver_policy: "all",
      ack_wait: nanos(this.#lease),
      // The runtime decides when a task has failed: at a limit, the server would stop delivering the message, and keep
      // it for ever.
      max_deliver: -1,
      // Released tasks count as pending until their delay is over, so that a limit would stop the queue.
      max_ack_pending: -1,
      max_waiting: MAX_WAITING,
    }
    const request = { stream_name: stream, config, action }
    return (await this.#link.tryApi(`CONSUMER.CREATE.${stream}.${consumer}`, request, ANSWER_MS)).error
  }

  /**
   * Changes the lease of an existing consumer to this transport's, where that is safe. A consumer has one lease for all
   * workers. A longer one is safe for all of them; a shorter one would end leases that another worker relies on, so
   * that it is set only while no delivery is pending and no pull request waits.
   */
  async #adjustLease(lane: Lane): Promise<void> {
    const info = await this.#info(lane)
    // It was deleted meanwhile: it is created anew.
    if (info === undefined) return this.lost(lane)
    lane.leased = true
    const has = numberAt(info, "config", "ack_wait")
    const wanted = nanos(this.#lease)
    const idle = numberAt(info, "num_ack_pending") === 0 && numberAt(info, "num_waiting") === 0
    if (has === wanted || (has > wanted && !idle)) return
    const error = await this.#put(lane, "update")
    if (error !== undefined) throw fromApiError(error, `CONSUMER.CREATE.${lane.consumer}`)
  }
}
