/**
 * Ends deliveries, a batch at a time and step by step: all records by compare-and-set, then all follow-ups, then all
 * acknowledgements. Whatever breaks off in between is taken up by the next delivery, which finds the record.
 */
import { decodeEnvelope } from "../../runtime/protocol/envelope.ts"
import { postingOf } from "../../runtime/protocol/headers.ts"
import { isUndecodable, type Posting, publishKey } from "../../runtime/protocol/message.ts"
import { type Settled, type Settlement, TransportError } from "../../runtime/transport/mod.ts"
import { asTransportError } from "./connection/errors.ts"
import type { Link } from "./connection/link.ts"
import { judgeRecord } from "./fencing.ts"
import type { Journal, Kept, Prepared } from "./journal.ts"
import { ACK, Acks, nak } from "./queue/acks.ts"
import type { Token } from "./queue/delivery.ts"
import type { Ledger } from "./queue/ledger.ts"
import type { Posted, Posts } from "./queue/posts.ts"
import type { Runs } from "./runs.ts"
import { escapeToken, type Names } from "./streams/names.ts"
import type { Outgoing } from "./streams/publisher.ts"
import type { Reader, StoredMessage } from "./streams/reader.ts"

const ROUNDS = 5

/** Most settlements have no follow-ups, and need no lists of their own. */
const NONE: ReadonlyArray<never> = []

/** One settlement on its way. */
interface Item {
  readonly settlement: Settlement
  readonly token: Token
  /** Follow-ups with the messages that carry them, in the order in which they are sent. */
  readonly posts: ReadonlyArray<Posted>
  readonly outgoing: ReadonlyArray<Outgoing>
  readonly prepared: Prepared | undefined
  /** Nothing was stored just now: follow-ups may have been published before. */
  repeated: boolean
  /** Sequence that the stored record must have; `undefined`: not known yet. */
  expect: number | undefined
  /** The record that ours replaces under another subject. */
  replaces: Pick<Kept, "seq"> | undefined
  recorded: boolean
  acknowledged: boolean
  answer: Settled | undefined
}

export interface SettlerParts {
  readonly link: Link
  readonly names: Names
  readonly journal: Journal
  readonly posts: Posts
  readonly ledger: Ledger
  readonly runs: Runs
  /** Of the queue stream. */
  readonly tasks: Reader
}

export class Settler {
  readonly #parts: SettlerParts

  constructor(parts: SettlerParts) {
    this.#parts = parts
  }

  async settle(settlements: ReadonlyArray<Settlement>): Promise<ReadonlyArray<Settled>> {
    await this.#parts.link.ready()
    const acks = new Acks(this.#parts.link)
    const answers: Array<Settled> = []
    const items: Array<Item> = []
    const places: Array<number> = []
    for (const [index, settlement] of settlements.entries()) {
      const item = this.#begin(settlement)
      if ("status" in item) answers[index] = item
      else {
        items.push(item)
        places.push(index)
      }
    }
    const [withRecord, without] = [items.filter(({ prepared }) => prepared), items.filter(({ prepared }) => !prepared)]
    try {
      await this.#record(withRecord, acks)
      await this.#check(without)
      await this.#follow(items.filter(({ answer, posts }) => answer === undefined && posts.length > 0))
      await this.#tidy(items)
    } catch (error) {
      // Those that were done before are over whatever becomes of the others.
      void acks.finish()
      throw error
    }
    await this.#acknowledge(items, acks)
    for (const [at, item] of items.entries()) {
      const answer = item.answer ?? { status: "settled" }
      if (answer.status === "superseded") this.#parts.ledger.settle(item.token)
      answers[places[at] ?? at] = answer
    }
    return answers
  }

  /** Everything that can fail without the server is tried first, so that no half of a settlement is stored. */
  #begin(settlement: Settlement): Item | Settled {
    const token = this.#parts.ledger.read(settlement.token)
    if (token === undefined) return { status: "gone" }
    const { record, followUps = NONE } = settlement
    try {
      const posts = followUps.length === 0 ? NONE : postsOf(followUps, record?.id)
      const outgoing = posts.length === 0 ? NONE : posts.map((post) => this.#parts.posts.prepare(post))
      const prepared =
        record === undefined
          ? undefined
          : this.#parts.journal.prepare(record.fence === token.fence ? record : { ...record, fence: token.fence })
      const claim = this.#parts.ledger.get(token)?.claim
      const replaces = claim !== undefined && claim.subject !== prepared?.subject ? claim : undefined
      return {
        settlement,
        token,
        posts,
        outgoing,
        prepared,
        repeated: prepared === undefined,
        expect: claim?.seq ?? (token.fresh ? 0 : undefined),
        replaces,
        recorded: false,
        acknowledged: false,
        answer: undefined,
      }
    } catch (error) {
      return { status: "failed", error: asTransportError(error) }
    }
  }

  async #record(items: ReadonlyArray<Item>, acks: Acks): Promise<void> {
    await this.#judge(items.filter(({ expect }) => expect === undefined))
    const isOpen = ({ answer, recorded }: Item): boolean => answer === undefined && !recorded
    for (let tries = 0, open = items.filter(isOpen); open.length > 0; open = open.filter(isOpen), tries++) {
      if (tries === ROUNDS) {
        const error = new TransportError("unavailable", "too many write about a job at the same time")
        for (const item of open) item.answer = { status: "failed", error }
        return
      }
      const { journal } = this.#parts
      const messages = open.flatMap(({ prepared, expect }) =>
        prepared === undefined ? [] : journal.message(prepared, expect ?? 0),
      )
      const lost: Array<Item> = []
      const round = open
      await journal.write(messages, (at, result) => {
        const item = round[at]
        if (item === undefined) return
        if (result.status === "failed") item.answer = { status: "failed", error: result.error }
        else if (result.status === "conflict") lost.push(item)
        else {
          item.recorded = true
          // Nothing else is to be done first: the server goes on while the other records are on their way.
          if (item.posts.length === 0 && item.replaces === undefined) this.#add(item, acks)
        }
      })
      await this.#judge(lost)
    }
  }

  /** Looks at what is stored and decides whether these items may replace it. */
  async #judge(items: ReadonlyArray<Item>): Promise<void> {
    if (items.length === 0) return
    const stored = await this.#parts.journal.read(items.flatMap(({ settlement: { record } }) => record?.id ?? []))
    for (const item of items) {
      const { record } = item.settlement
      if (record === undefined) continue
      const current = stored.get(record.id)
      const verdict = judgeRecord(current?.record, record, item.token.fence)
      if (verdict === "superseded") item.answer = { status: "superseded" }
      else if (verdict === "done") {
        item.recorded = true
        item.repeated = true
      } else {
        item.expect = current?.seq ?? 0
        item.replaces = current !== undefined && current.subject !== item.prepared?.subject ? current : undefined
      }
    }
  }

  /**
   * Settlements without a record have nothing to be refused by. The server takes an acknowledgement from whoever sends
   * it, also when somebody else holds the task by now, so that a lease which may have lapsed is looked into first.
   */
  async #check(items: ReadonlyArray<Item>): Promise<void> {
    const now = Date.now()
    const { ledger, tasks, runs } = this.#parts
    const doubtful = items.filter(({ token }) => !ledger.runs(token, now) || ledger.get(token) === undefined)
    await Promise.all(
      doubtful.map(async (item) => {
        const { token } = item
        if (ledger.wasSettled(token) || (await tasks.at(token.seq)) === undefined) item.answer = { status: "gone" }
        // Not acknowledging costs one more delivery, which finds the same; acknowledging might cost somebody his task.
        else if (!ledger.runs(token, now) && !(await runs.isExtended(token.fence)))
          item.answer = { status: "superseded" }
      }),
    )
  }

  async #follow(items: ReadonlyArray<Item>): Promise<void> {
    if (items.length === 0) return
    const isKnown = await this.#known(items.filter(({ repeated }) => repeated))
    const posts: Array<Posted> = []
    const outgoing: Array<Outgoing> = []
    const owners: Array<Item> = []
    for (const item of items) {
      for (const [at, post] of item.posts.entries()) {
        const message = item.outgoing[at]
        if (message === undefined || (item.repeated && isKnown(post.posting, item.token))) continue
        posts.push(post)
        outgoing.push(message)
        owners.push(item)
      }
    }
    const results = await this.#parts.posts.send(posts, outgoing)
    for (const [at, result] of results.entries()) {
      const owner = owners[at]
      if (owner !== undefined && result.status === "failed") owner.answer = { status: "failed", error: result.error }
    }
  }

  /**
   * Which follow-ups were published already, although the server may not remember their publish keys any more: their
   * task waits, or their job has a record that is as far.
   */
  async #known(items: ReadonlyArray<Item>): Promise<(posting: Posting, by: Token) => boolean> {
    const { journal, tasks, names } = this.#parts
    const ids = [...new Set(items.flatMap(({ posts }) => posts.map(({ posting }) => posting.id)))]
    if (ids.length === 0) return () => false
    // A task may be on its way from here to there: the place where it was first, then where it goes.
    const waiting = await tasks.last(ids.map((id) => names.tasksOf(escapeToken(id))))
    const keys = new Set(waiting.map((message) => keyOf(message, names)))
    const stored = await journal.read(ids)
    return (posting, by) => {
      if (keys.has(publishKey(posting))) return true
      const record = stored.get(posting.id)?.record
      if (record === undefined || record.run !== posting.run) return record !== undefined && record.run > posting.run
      // The record that names a follow-up says nothing about whether it was published; a later one does.
      return escapeToken(posting.id) !== by.idToken || record.fence > by.fence
    }
  }

  /** Before acknowledging: what is left behind now would outlive the record that replaced it. */
  async #tidy(items: ReadonlyArray<Item>): Promise<void> {
    const replaced: Array<Pick<Kept, "seq">> = []
    for (const { recorded, replaces } of items) if (recorded && replaces !== undefined) replaced.push(replaces)
    if (replaced.length > 0) await this.#parts.journal.forget(replaced)
  }

  #add(item: Item, acks: Acks): void {
    const { token, settlement } = item
    const { ledger } = this.#parts
    if (ledger.wasSettled(token)) {
      item.answer = { status: "gone" }
      return
    }
    const { then } = settlement
    try {
      acks.add({ ack: token.ack, consumer: token.consumer, payload: then.kind === "ack" ? ACK : nak(then.delay) })
    } catch (error) {
      item.answer = { status: "failed", error: asTransportError(error) }
      return
    }
    item.acknowledged = true
    ledger.settle(token)
  }

  async #acknowledge(items: ReadonlyArray<Item>, acks: Acks): Promise<void> {
    for (const item of items) if (item.answer === undefined && !item.acknowledged) this.#add(item, acks)
    const handled = acks.finish().then((unanswered) => this.#adopt(items, unanswered))
    // What has a record is over, acknowledged or not: who settles need not wait for the server to have handled that.
    if (items.some(({ prepared, acknowledged }) => acknowledged && prepared === undefined)) await handled
  }

  /**
   * A lost acknowledgement is no failure: the task comes again, its record is found, and it is acknowledged then. But
   * where the consumer was deleted nobody took it, and the next consumer would deliver what is over.
   */
  async #adopt(items: ReadonlyArray<Item>, unanswered: ReadonlyMap<string, TransportError>): Promise<void> {
    if (unanswered.size === 0) return
    const orphans = items.flatMap(({ acknowledged, token, settlement: { then } }) =>
      acknowledged && then.kind === "ack" && unanswered.get(token.consumer)?.outcome === "none" ? token.seq : [],
    )
    await this.#parts.tasks.remove(orphans).catch(() => undefined)
  }
}

/** Follow-ups in the order in which they are sent: a successor of the job itself last, because its claim replaces them. */
const postsOf = (followUps: ReadonlyArray<Posting>, id: string | undefined): ReadonlyArray<Posted> => [
  ...followUps.filter((posting) => posting.id !== id).map((posting) => ({ posting, recorded: false })),
  ...followUps.filter((posting) => posting.id === id).map((posting) => ({ posting, recorded: true })),
]

/** The publish key of a task that waits. */
const keyOf = ({ subject, data }: StoredMessage, names: Names): string | undefined => {
  const message = decodeEnvelope(data)
  if (isUndecodable(message)) return undefined
  const posting = postingOf(message, names.parseTask(subject)?.queue ?? "")
  return posting._tag === "Success" ? publishKey(posting.success) : undefined
}
