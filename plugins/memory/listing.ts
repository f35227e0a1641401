/** Jobs in the order of their first task or record, by state, queue, task and link: lists read only what they may show. */
import type { Index, Query } from "../../runtime/transport/mod.ts"

export interface Listed {
  readonly id: string
  /** Rises with the first task or record of each job. */
  readonly sequence: number
  /** What the job was last listed by; `undefined` once it is forgotten. */
  listed?: Index | undefined
}

/**
 * Jobs of one key, oldest first. A job that leaves keeps its place until there are as many of these as of others, so that
 * leaving costs no move of all that follow.
 */
class Listing<J extends Listed> {
  #jobs: Array<J> = []
  #left = 0
  readonly #has: (job: J) => boolean

  constructor(has: (job: J) => boolean) {
    this.#has = has
  }

  get size(): number {
    return this.#jobs.length - this.#left
  }

  add(job: J): void {
    const at = this.#below(job.sequence)
    if (this.#jobs[at] === job) this.#left--
    else this.#jobs.splice(at, 0, job)
  }

  leave(): void {
    this.#left++
    if (this.#left < 1_000 || this.#left * 2 < this.#jobs.length) return
    this.#jobs = this.#jobs.filter(this.#has)
    this.#left = 0
  }

  /** The jobs below a sequence, newest first. */
  *newest(below: number): Generator<J> {
    for (let at = this.#below(below) - 1; at >= 0; at--) {
      const job = this.#jobs[at]
      if (job !== undefined && this.#has(job)) yield job
    }
  }

  /** Index of the first job with this sequence or a higher one. */
  #below(sequence: number): number {
    let low = 0
    let high = this.#jobs.length
    if ((this.#jobs[high - 1]?.sequence ?? -1) < sequence) return high
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#jobs[middle]?.sequence ?? 0) < sequence) low = middle + 1
      else high = middle
    }
    return low
  }
}

const LINKS = ["root", "parent", "group", "error"] as const

/** The keys under which a job is listed. All jobs have the empty one. */
const keysOf = ({ state, queue, task, method, ...index }: Index): ReadonlyArray<string> => [
  "",
  `state ${state}`,
  `queue ${queue}`,
  `task ${task}`,
  ...(method === undefined ? [] : [`task ${task}.${method}`]),
  ...LINKS.flatMap((link) => (index[link] === undefined ? [] : [`${link} ${index[link]}`])),
]

/** Whether a job is listed under a key. */
const isUnder = (key: string): ((index: Index) => boolean) => {
  const at = key.indexOf(" ")
  const value = key.slice(at + 1)
  const kind = key.slice(0, Math.max(at, 0))
  switch (kind) {
    case "":
      return () => true
    case "task":
      return ({ task, method }) => task === value || `${task}.${method}` === value
    case "state":
    case "queue":
      return (index) => index[kind] === value
    default: {
      const link = LINKS.find((each) => each === kind)
      return (index) => link !== undefined && index[link] === value
    }
  }
}

const WAITING = ["queued", "scheduled"] as const

export class Listings<J extends Listed> {
  readonly #listings = new Map<string, Listing<J>>()

  /** Lists a job by what is known of it now; `undefined`: not any more. */
  put(job: J, index: Index | undefined): void {
    const before = job.listed === undefined ? [] : keysOf(job.listed)
    const after = index === undefined ? [] : keysOf(index)
    job.listed = index
    for (const key of before) {
      if (after.includes(key)) continue
      const listing = this.#listings.get(key)
      listing?.leave()
      if (listing?.size === 0) this.#listings.delete(key)
    }
    for (const key of after) if (!before.includes(key)) this.#listing(key).add(job)
  }

  /** How many jobs a state has. */
  size(state: Index["state"]): number {
    return this.#listings.get(`state ${state}`)?.size ?? 0
  }

  /** Jobs that may match a query, newest first, by the key that has the fewest. */
  *newest({ states, queue, task, ...query }: Omit<Query, "limit">, below: number): Generator<J> {
    const links = LINKS.flatMap((link) => (query[link] === undefined ? [] : [[`${link} ${query[link]}`]]))
    const waits = states?.some((state) => state === "queued" || state === "scheduled")
    const choices = [
      [""],
      ...(states === undefined ? [] : [[...new Set([...states, ...(waits ? WAITING : [])])].map((s) => `state ${s}`)]),
      ...(queue === undefined ? [] : [[`queue ${queue}`]]),
      ...(task === undefined ? [] : [[`task ${task}`]]),
      ...links,
    ]
    const sized = choices.map((keys) => {
      const listings = keys.flatMap((key) => this.#listings.get(key) ?? [])
      return { listings, size: listings.reduce((sum, { size }) => sum + size, 0) }
    })
    const fewest = sized.reduce((best, each) => (each.size < best.size ? each : best))
    const sources = fewest.listings.map((listing) => listing.newest(below))
    const heads = sources.map((source) => source.next().value)
    for (;;) {
      let newest = -1
      for (const [at, head] of heads.entries()) if (head && head.sequence > (heads[newest]?.sequence ?? -1)) newest = at
      const job = heads[newest]
      if (!job) return
      yield job
      heads[newest] = sources[newest]?.next().value
    }
  }

  #listing(key: string): Listing<J> {
    let listing = this.#listings.get(key)
    if (listing === undefined) {
      const isIn = isUnder(key)
      listing = new Listing(({ listed }) => listed !== undefined && isIn(listed))
      this.#listings.set(key, listing)
    }
    return listing
  }
}
