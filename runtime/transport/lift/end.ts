/**
 * Ends deliveries: one commit of the outcome with everything that follows from it. What comes first is one call for all of
 * a batch, without a look at what is stored; what met something else is looked at one by one.
 */
import type { JobRecord } from "../../protocol/record.ts"
import type { Capabilities, Commit, CommitRecord, Committed, Driver, Posting, TaskEnd } from "../driver.ts"
import { asError } from "../mod.ts"
import type { Revision } from "../store.ts"
import { type Attempt, readToken } from "./attempt.ts"
import { decodeStored, toPost, toStore } from "./codec.ts"
import { type Asking, areOfDifferentJobs, MOST_ROUNDS, tooFast } from "./commits.ts"
import { judgeConflict } from "./judge.ts"
import { missing } from "./owed.ts"
import type { Revisions } from "./revisions.ts"
import type { AttemptEnd, EndAnswer } from "./transport.ts"

/** A settlement with everything made that can fail before the driver is asked. */
interface Ending {
  readonly settlement: AttemptEnd
  readonly attempt: Attempt
  readonly wanted: JobRecord | undefined
  /** Over the revision that is known, or over none; absent where nothing is to be stored. */
  readonly record: CommitRecord | undefined
  readonly post: ReadonlyArray<Posting>
  readonly task: TaskEnd
  /** What is stored is not known here: it has to be looked at first. */
  readonly unread: boolean
}

const NONE: ReadonlyArray<Posting> = []

const failedOf = (thrown: unknown): EndAnswer => ({ status: "failed", error: asError(thrown) })

export class Ends {
  readonly #driver: Driver
  readonly #asking: Asking
  readonly #revisions: Revisions

  constructor(driver: Driver, asking: Asking, revisions: Revisions) {
    this.#driver = driver
    this.#asking = asking
    this.#revisions = revisions
  }

  /** Rejects only with what the driver threw before anything was tried. */
  async settle(settlements: ReadonlyArray<AttemptEnd>): Promise<ReadonlyArray<EndAnswer>> {
    const now = Date.now()
    const answers: Array<EndAnswer | Ending> = []
    const commits: Array<Commit> = []
    const { capabilities } = this.#driver
    settlements.forEach((settlement) => {
      try {
        const ending = prepare(settlement, this.#revisions, capabilities, now)
        answers.push(ending)
        if (!ending.unread) commits.push(commitOf(ending))
      } catch (thrown) {
        answers.push(failedOf(thrown))
      }
    })
    const first = await this.#commit(commits)
    const settled: Array<EndAnswer> = []
    const slow: Array<Promise<void>> = []
    let nth = 0
    answers.forEach((answer, at) => {
      if (!("settlement" in answer)) {
        settled[at] = answer
        return
      }
      const committed = answer.unread ? undefined : first[nth++]
      if (committed !== undefined && committed.status !== "conflict") settled[at] = this.#answer(answer, committed)
      else {
        const late = this.#carefully(answer).catch(failedOf)
        slow.push(
          late.then((found) => {
            settled[at] = found
          }),
        )
      }
    })
    if (slow.length > 0) await Promise.all(slow)
    return settled
  }

  #commit(commits: ReadonlyArray<Commit>): Promise<ReadonlyArray<Committed>> {
    if (commits.length === 0) return Promise.resolve([])
    return areOfDifferentJobs(commits)
      ? this.#driver.commit(commits)
      : Promise.all(commits.map((commit) => this.#asking.commit(commit)))
  }

  #answer(ending: Ending, committed: Exclude<Committed, { readonly status: "conflict" }>): EndAnswer {
    if (committed.status === "failed") return committed
    const { settlement, wanted, task } = ending
    // An attempt that goes on writing about its job needs the revision; an outcome is the last word.
    if (wanted?.state === "started" && task.kind === "ack") this.#revisions.set(settlement.token, committed.revision)
    else if (wanted !== undefined) this.#revisions.delete(settlement.token)
    return committed.gone ? { status: "gone" } : { status: "settled" }
  }

  /** What met another revision than it expected, or does not know which to expect. */
  async #carefully(ending: Ending): Promise<EndAnswer> {
    const { settlement, attempt, wanted, record, post, task } = ending
    if (wanted === undefined || record === undefined) return this.#rest(ending)
    const { id } = wanted
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const known = await this.#asking.read(id, "record")
      const stored = known?.record && decodeStored(known.record)
      const expect: Revision = known?.revision ?? ""
      const verdict = judgeConflict(stored, wanted, attempt)
      if (verdict === "refused") {
        this.#revisions.delete(settlement.token)
        return { status: "superseded" }
      }
      if (verdict === "done") return this.#rest(ending)
      const committed = await this.#asking.commit({ id, record: { ...record, expect }, post, task })
      if (committed.status !== "conflict") return this.#answer(ending, committed)
    }
    return { status: "failed", error: tooFast(id) }
  }

  /** The record is in: what follows from it and is not known, then the task. */
  async #rest(ending: Ending): Promise<EndAnswer> {
    const { settlement, attempt, wanted, post, task } = ending
    const { followUps = [] } = settlement
    const out = new Set(await missing(this.#asking, attempt.id, followUps))
    const rest = post.filter((_, at) => {
      const followUp = followUps[at]
      return followUp !== undefined && out.has(followUp)
    })
    const committed = await this.#asking.commit({ id: wanted?.id ?? jobOf(attempt), post: rest, task })
    return committed.status === "conflict" ? { status: "superseded" } : this.#answer(ending, committed)
  }
}

/** Fails with `invalid`, `unsupported` or `too-large`. */
const prepare = (settlement: AttemptEnd, revisions: Revisions, capabilities: Capabilities, now: number): Ending => {
  const { token, record, followUps, then } = settlement
  const attempt = readToken(token)
  const expect = revisions.get(token) ?? (attempt.fresh ? "" : undefined)
  const { fence } = attempt
  const wanted = record === undefined || record.fence === fence ? record : { ...record, fence }
  return {
    settlement,
    attempt,
    wanted,
    record: wanted && toStore(wanted, expect ?? "", now),
    post: followUps === undefined ? NONE : followUps.map((posting) => toPost(posting, now, capabilities)),
    task:
      then.kind === "ack"
        ? { kind: "ack", token: attempt.token }
        : { kind: "release", token: attempt.token, delay: then.delay },
    // Follow-ups without a record are those of an outcome that another attempt has stored, and may have posted.
    unread: wanted === undefined ? followUps !== undefined && followUps.length > 0 : expect === undefined,
  }
}

/** What cannot be read is of no job. */
const jobOf = ({ id, fence }: Attempt): string => (id === "" ? fence : id)

const commitOf = ({ attempt, wanted, record, post, task }: Ending): Commit =>
  record === undefined || wanted === undefined ? { id: jobOf(attempt), task } : { id: wanted.id, record, post, task }
