/** One change of one job: its record, then postings, then the task. */

import { Buffer } from "node:buffer"
import type { Commit } from "../../../../runtime/transport/driver.ts"
import { delay, freeLeases } from "../../case.ts"
import { between, check, equal, sameSet } from "../../check.ts"
import { describe } from "../../peer.ts"
import { atomic, boundedDelay, type DriverCase, dedupe, noFront } from "../case.ts"
import { size, taken } from "../context.ts"
import { idOf, idsOf, recordOf, sized, text, varied } from "../task.ts"

const group = "commit"

/** Fails unless a commit was refused for this reason, before its record was stored. */
const refused = (answer: { readonly status: string }, reason: string, what: string): void => {
  check(
    answer.status === "failed" && "error" in answer && answer.error instanceof Error && "reason" in answer.error,
    `${what} must fail, it was ${describe(answer)}`,
  )
  equal(answer.error.reason, reason, `reason why ${what} failed`)
  check(!("revision" in answer) || answer.revision === undefined, `${what} fails before the record is stored`)
}

export const commitCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "what was acked never comes again",
    lease: 1_000,
    async run({ peer, fresh, task, harness, lease, until, tolerance, inTime }) {
      const queue = fresh("queue")
      const posting = task({ queue })
      await peer.publish(posting)
      await inTime(Date.now() + lease - tolerance, async () => peer.end(await peer.one(queue)))
      await until(
        "nothing is known of a job whose task was acked",
        async () => (await peer.read(posting.id)) === undefined,
      )
      await peer.none(queue, "it was acked", lease + harness.capabilities.leaseResolution + 300)
    },
  },
  {
    group,
    name: "acking twice harms nobody",
    async run({ peer, fresh, tasks }) {
      const queue = fresh("queue")
      const postings = tasks(2, { queue })
      await peer.publish(...postings)
      const first = await peer.one(queue)
      await peer.end(first)
      const again = await peer.commit({ id: idOf(first), task: { kind: "ack", token: first.token } })
      check(again.status === "committed", `the second ack must be committed, it was ${describe(again)}`)
      equal(idOf(await peer.one(queue)), postings[1]?.id, "what comes next")
    },
  },
  {
    group,
    name: "what was never a token ends nothing: the task is gone, and the record counts",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const posting = task({ queue })
      await peer.publish(posting)
      await peer.one(queue)
      const record = recordOf(posting, "succeeded")
      const answer = await peer.commit({ id: posting.id, record, task: { kind: "ack", token: "never a token" } })
      check(answer.status === "committed", `the record must be committed, it was ${describe(answer)}`)
      equal(answer.gone, true, "whether the answer says that the task is gone")
      const { revision, task: left } = await peer.known(posting.id)
      equal(revision, answer.revision, "revision")
      equal(await peer.says(posting.id), "succeeded", "record")
      check(left !== undefined, "the task must still be there")
    },
  },
  {
    group,
    name: "a task that is given back comes again at once",
    async run({ peer, fresh, task, slack, timed }) {
      const { queue, posting, delivery: first } = await taken(peer, task({ queue: fresh("queue") }))
      const took = timed()
      await peer.release(first)
      const second = await peer.one(queue, 2 * slack)
      took(0, slack, "milliseconds until it comes again")
      equal(idOf(second), posting.id, "what comes")
      check(second.fence > first.fence, `fences must rise: ${first.fence}, then ${second.fence}`)
    },
  },
  {
    group,
    name: "a task that is given back with a delay waits so long",
    needs: [delay],
    async run({ peer, fresh, task, harness, tolerance, slack, timed }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      const first = await peer.one(queue)
      const took = timed()
      await peer.release(first, 700)
      await peer.one(queue, 8_000)
      const late = 700 + harness.capabilities.dueResolution + slack
      took(700 - tolerance, late, "milliseconds until it comes again")
    },
  },
  {
    group,
    name: "commits of one batch stand alone, in order",
    async run({ peer, fresh, tasks, task, harness }) {
      const queue = fresh("queue")
      const postings = tasks(3, { queue })
      await peer.publish(...postings)
      const [one, two, three] = (await peer.all(queue, 3)).map(({ token }) => token)
      const [known, big] = [task({ queue }), task({ queue })]
      await peer.put(known.id, recordOf(known, "failed"))
      const bytes = new Uint8Array(harness.capabilities.maxRecord + 1)
      const answers = await peer.commits(
        { id: "1", task: { kind: "ack", token: one ?? "" } },
        { id: known.id, record: recordOf(known, "succeeded") },
        { id: "2", task: { kind: "hand-back", token: two ?? "", delay: 0 } },
        { id: big.id, record: recordOf(big, "succeeded", { bytes }) },
        { id: "3", record: recordOf(known, "succeeded"), task: { kind: "ack", token: three ?? "" } },
      )
      equal(
        answers.map(({ status }) => status),
        ["committed", "conflict", "committed", "failed", "committed"],
        "answers",
      )
      equal(idsOf(await peer.all(queue, 1)), [postings[1]?.id], "what comes again")
      equal([await peer.says(known.id), await peer.says("3")], ["failed", "succeeded"], "records")
      await peer.none(queue, "the others were acked")
    },
  },
  {
    group,
    name: "no commits: no answers",
    async run({ peer }) {
      equal(await peer.commits(), [], "answers")
    },
  },
  {
    group,
    name: "many commits of one batch are all done",
    async run({ peer, fresh, tasks, until }) {
      const queue = fresh("queue")
      const postings = tasks(size(200, 1_000), { queue })
      await peer.publish(...postings)
      const [first] = postings
      check(first !== undefined, "there are tasks")
      const commits = (await peer.all(queue, postings.length)).map(({ token, ...delivery }, at): Commit => {
        const record = recordOf(first, "succeeded", { says: String(at) })
        return { id: idOf(delivery), record, task: { kind: "ack", token } }
      })
      const answers = await peer.commits(...commits)
      equal(answers.filter(({ status }) => status !== "committed").length, 0, "commits that were not committed")
      const known = await peer.reads(commits.map(({ id }) => id))
      const wrong = known.filter((each, at) => text(each?.record) !== String(at))
      equal(wrong.length, 0, "jobs whose record is not as it was committed")
      await until("all tasks are gone", async () => {
        const left = await peer.reads(commits.map(({ id }) => id))
        return left.every((each) => each?.task === undefined)
      })
      await peer.none(queue, "all were acked")
    },
  },
  {
    group,
    name: "a record comes back byte for byte, with the revision that the commit answered",
    async run({ peer, fresh, task, elsewhere }) {
      const other = await elsewhere()
      for (const bytes of [Uint8Array.from({ length: 512 }, (_, at) => at), new Uint8Array(0)]) {
        const posting = task({ queue: fresh("queue") })
        const revision = await peer.put(posting.id, recordOf(posting, "succeeded", { bytes }))
        for (const each of [peer, other]) {
          for (const what of ["record", "all"] as const) {
            equal(await each.read(posting.id, what), { revision, record: bytes }, `what is known of it (${what})`)
          }
        }
      }
    },
  },
  {
    group,
    name: "the largest record that is allowed is stored, and one byte more is refused as too-large and does nothing",
    async run({ peer, fresh, task, harness }) {
      const queue = fresh("queue")
      const { maxRecord } = harness.capabilities
      const posting = task({ queue })
      const { id } = posting
      await peer.publish(posting)
      const delivery = await peer.one(queue)
      const end = { kind: "ack", token: delivery.token } as const
      const big = recordOf(posting, "succeeded", { bytes: new Uint8Array(maxRecord + 1) })
      refused(
        await peer.commit({ id, record: big, post: [task({ queue })], task: end }),
        "too-large",
        "a record too large",
      )
      const { record, task: left } = await peer.known(id)
      equal([record, left !== undefined], [undefined, true], "record and task, after the failure")
      await peer.none(queue, "nothing was posted")
      const bytes = varied(maxRecord)
      await peer.end(delivery, { record: recordOf(posting, "succeeded", { bytes }) })
      const { record: largest } = await peer.known(id)
      equal(largest?.length, maxRecord, "bytes of the largest record")
      check(
        largest !== undefined && Buffer.compare(largest, bytes) === 0,
        "the largest record must come back as it was",
      )
    },
  },
  {
    group,
    name: "what the caller or a reader changes afterwards does not reach the record",
    async run({ peer, fresh, task }) {
      const posting = task({ queue: fresh("queue") })
      const record = recordOf(posting, "succeeded", { says: "kept" })
      await peer.put(posting.id, record)
      record.bytes.fill(0)
      const known = await peer.known(posting.id)
      equal(text(known.record), "kept", "record after its writer changed the bytes")
      known.record?.fill(0)
      equal(await peer.says(posting.id), "kept", "record after a reader changed the bytes")
    },
  },
  {
    group,
    name: "postings of a commit are published, with and without a record",
    async run({ peer, fresh, task }) {
      const [queue, other] = [fresh("queue"), fresh("other")]
      const [one, two] = [task({ queue }), task({ queue })]
      await peer.publish(one, two)
      const [retry, callback, alone] = [
        task({ queue, id: one.id, retries: 1 }),
        task({ queue: other }),
        task({ queue }),
      ]
      const [first, second] = await peer.all(queue, 2)
      check(first !== undefined && second !== undefined, "two deliveries must come")
      await peer.end(first, { record: recordOf(one, "queued"), post: [retry, callback] })
      await peer.end(second, { post: [alone] })
      equal(idsOf(await peer.all([queue, other], 3)), [one.id, alone.id, callback.id], "what comes")
      await peer.none([queue, other], "each is published once")
    },
  },
  ...(["acks", "withdraws"] as const).map(
    (how): DriverCase => ({
      group,
      name: `a commit without a record that ${how} a task of a job posts the next one`,
      needs: how === "withdraws" ? [freeLeases] : [],
      async run({ peer, fresh, task }) {
        const [queue, next] = [fresh("queue"), fresh("next")]
        const posting = task({ queue })
        const { id } = posting
        const post = [task({ queue: next, id, run: 2 })]
        await peer.publish(posting)
        if (how === "acks") await peer.end(await peer.one(queue), { post })
        else await peer.committed({ id, post, task: { kind: "withdraw" } })
        equal(idOf(await peer.one(next)), id, "what comes: the task of the next run")
        await peer.none([queue, next], "there is one task")
      },
    }),
  ),
  {
    group,
    name: "postings of a commit without a record are stored although its task is gone",
    async run({ peer, fresh, task }) {
      const [queue, next] = [fresh("queue"), fresh("next")]
      const { delivery } = await taken(peer, task({ queue }))
      const { token } = delivery
      await peer.end(delivery)
      const posting = task({ queue: next })
      const answer = await peer.commit({ id: posting.id, post: [posting], task: { kind: "ack", token } })
      check(answer.status === "committed", `it must be committed, it was ${describe(answer)}`)
      equal(idOf(await peer.one(next)), posting.id, "what comes")
    },
  },
  {
    group,
    name: "a commit posts as many tasks as it is given",
    async run({ peer, fresh, task, tasks }) {
      const posting = task({ queue: fresh("queue") })
      const post = tasks(size(100, 1_000), { queue: fresh("next") })
      await peer.committed({ id: posting.id, record: recordOf(posting, "queued"), post })
      const known = await peer.reads(post.map(({ id }) => id))
      equal(known.filter((each) => each?.task === undefined).length, 0, "postings that are not stored")
    },
  },
  {
    group,
    name: "two commits of one batch that post the same task are both done, and it is stored once",
    needs: [dedupe],
    async run({ peer, fresh, task }) {
      const [queue, next] = [fresh("queue"), fresh("next")]
      const post = [task({ queue: next })]
      const commits = [task({ queue }), task({ queue })].map(
        ({ id, index }): Commit => ({ id, record: recordOf({ index }, "succeeded"), post }),
      )
      const answers = await peer.commits(...commits)
      equal(
        answers.map(({ status }) => status),
        ["committed", "committed"],
        "answers",
      )
      await peer.one(next)
      await peer.none(next, "it is stored once")
    },
  },
  {
    group,
    name: "a posting of a commit keeps its due time",
    needs: [delay],
    async run({ peer, fresh, task, tolerance }) {
      const queue = fresh("queue")
      const due = Date.now() + 900
      await peer.publish(task({ queue }))
      await peer.end(await peer.one(queue), { post: [task({ queue, due })] })
      await peer.one(queue, 8_000)
      between(Date.now() - due, -tolerance, Infinity, "milliseconds after its time")
    },
  },
  {
    group,
    name: "the same commit once more doubles no posting: a duplicate is as good as stored",
    needs: [dedupe],
    async run({ peer, fresh, task }) {
      const [queue, other] = [fresh("queue"), fresh("other")]
      const posting = task({ queue })
      await peer.publish(posting)
      const { token } = await peer.one(queue)
      const post = [task({ queue: other }), task({ queue: other })]
      const end = { kind: "ack", token } as const
      const expect = await peer.committed({ id: posting.id, record: recordOf(posting, "succeeded"), post, task: end })
      const [ended] = await peer.all(other, 1)
      check(ended !== undefined, "a posting must come")
      await peer.end(ended, { record: recordOf(posting, "succeeded") })
      const again = recordOf(posting, "succeeded", { expect })
      const answer = await peer.commit({ id: posting.id, record: again, post, task: end })
      check(answer.status === "committed", `once more must be committed, it was ${describe(answer)}`)
      equal((await peer.all(other, 1)).length, 1, "postings that are left")
      await peer.none([queue, other], "they were published before")
    },
  },
  {
    group,
    name: "of unique postings none is stored where one is a duplicate, which the answer names",
    needs: [atomic],
    async run({ peer, fresh, task, elsewhere }) {
      const queue = fresh("queue")
      const posted = (count: number) => Array.from({ length: count }, () => task({ queue }))
      const [a, b, c, d] = posted(4)
      if (a === undefined || b === undefined || c === undefined || d === undefined) throw new Error("no tasks")
      await peer.publish(a)
      const answer = await peer.commit({ id: b.id, post: [b, a, c], unique: true })
      check(answer.status === "conflict", `it must be a conflict, it was ${describe(answer)}`)
      equal(answer.status === "conflict" ? answer.known : [], [a.id], "duplicates")
      equal((await peer.all(queue, 1)).map(idOf), [a.id], "tasks after the conflict")
      await peer.none(queue, "none of the others was stored")
      const other = await elsewhere()
      const race = await Promise.all([peer, other].map((each) => each.commit({ id: c.id, post: [c, d], unique: true })))
      sameSet(
        race.map(({ status }) => status),
        ["committed", "conflict"],
        "answers of two that post the same at once",
      )
      equal((await peer.all(queue, 2)).map(idOf), [c.id, d.id], "tasks of the race")
    },
  },
  {
    group,
    name: "of many unique postings none is stored where the last one is a duplicate",
    needs: [atomic],
    async run({ peer, fresh, task, tasks }) {
      const queue = fresh("queue")
      const known = task({ queue: fresh("other") })
      await peer.publish(known)
      const post = [...tasks(size(100, 1_000), { queue }), known]
      const answer = await peer.commit({ id: known.id, post, unique: true })
      equal(answer, { status: "conflict", known: [known.id] }, "answer")
      await peer.none(queue, "none of the others was stored")
    },
  },
  {
    group,
    name: "a posting that is too large is refused before the record is stored",
    async run({ peer, fresh, task, harness }) {
      const { queue, posting, delivery } = await taken(peer, task({ queue: fresh("queue") }))
      const { id } = posting
      const post = [task({ queue }), sized(task({ queue }), harness.capabilities.maxTask + 1)]
      const record = recordOf(posting, "succeeded")
      const end = { kind: "ack", token: delivery.token } as const
      refused(await peer.commit({ id, record, post, task: end }), "too-large", "a posting too large")
      const { record: stored, task: left } = await peer.known(id)
      equal([stored, left !== undefined], [undefined, true], "record and task, after the failure")
      await peer.none(queue, "the posting beside it was refused with it")
      await peer.end(delivery, { record })
    },
  },
  {
    group,
    name: "a posting or a release beyond what it keeps is refused before the record is stored",
    needs: [boundedDelay],
    async run({ peer, fresh, task, harness }) {
      const {
        queue,
        posting,
        delivery: { token },
      } = await taken(peer, task({ queue: fresh("queue") }))
      const { id } = posting
      const record = recordOf(posting, "queued")
      const late = harness.capabilities.delay + 60_000
      const post = [task({ queue, due: Date.now() + late })]
      refused(await peer.commit({ id, record, post }), "unsupported", "a posting that is due too late")
      const release = { kind: "hand-back", token, delay: late } as const
      refused(await peer.commit({ id, record, task: release }), "unsupported", "a release with too long a delay")
      equal((await peer.known(id)).record, undefined, "record, after the failures")
      await peer.none(queue, "nothing was done")
    },
  },
  {
    group,
    name: "a posting for the front is refused before the record is stored, where there is none",
    needs: [noFront],
    async run({ peer, fresh, task }) {
      const posting = task({ queue: fresh("queue") })
      const post = [task({ queue: posting.queue, front: true })]
      const answer = await peer.commit({ id: posting.id, record: recordOf(posting, "queued"), post })
      refused(answer, "unsupported", "a posting for the front")
      equal(await peer.read(posting.id), undefined, "what is known, after the failure")
    },
  },
  {
    group,
    name: "the task need not be of the record's job",
    async run({ peer, fresh, task, until }) {
      const queue = fresh("queue")
      const [posting, other] = [task({ queue }), task({ queue })]
      await peer.publish(posting)
      const { token } = await peer.one(queue)
      await peer.committed({ id: other.id, record: recordOf(other, "failed"), task: { kind: "ack", token } })
      await until(
        "nothing is known of the job whose task was acked",
        async () => (await peer.read(posting.id)) === undefined,
      )
      equal(await peer.says(other.id), "failed", "record of the other")
    },
  },
]
