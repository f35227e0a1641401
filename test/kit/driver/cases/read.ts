/** Reading jobs in every state. */
import { delay } from "../../case.ts"
import { between, check, equal } from "../../check.ts"
import { type DriverCase, part } from "../case.ts"
import { patience, size, sleep } from "../context.ts"
import { idOf, messageOf, recordOf } from "../task.ts"

const group = "read"

export const readCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "a job that waits is known by its task, on any connection",
    async run({ peer, fresh, task, elsewhere, tolerance }) {
      const queue = fresh("queue")
      const expires = Date.now() + 60_000
      const posting = task({ queue, body: Uint8Array.of(0xff, 0, 1), expires })
      const before = Date.now()
      await peer.publish(posting)
      const after = Date.now()
      for (const each of [peer, await elsewhere()]) {
        const { revision, record, task: found } = await each.known(posting.id)
        equal([revision, record], ["", undefined], "revision and record of a job without record")
        check(found !== undefined, "its task must be known")
        const { content, at, sequence: _sequence, held = false, deliveries = 0, ...rest } = found
        equal(messageOf({ content }), messageOf({ content: posting.frame }), "its content")
        equal(rest, { queue, expires }, "what is known of its task")
        between(at, before - tolerance - 1_000, after + tolerance, "when it says it was published")
        equal([held, deliveries], [false, 0], "whether it is in hand, and how often it was delivered")
        const known = await each.read(posting.id, "record")
        equal([known?.record, known?.revision ?? ""], [undefined, ""], "its record, when only that is asked for")
      }
    },
  },
  {
    group,
    name: "the due time of a task that waits is known",
    needs: [delay],
    async run({ peer, fresh, task, far }) {
      const posting = task({ queue: fresh("queue"), due: far() })
      await peer.publish(posting)
      equal((await peer.known(posting.id)).task?.due, posting.due, "due time")
    },
  },
  {
    group,
    name: "a job that is in hand is known by its task, with and without a record",
    async run({ peer, fresh, task }) {
      const queue = fresh("queue")
      const posting = task({ queue })
      const { id } = posting
      await peer.publish(posting)
      await peer.one(queue)
      const found = (await peer.known(id)).task
      check(found !== undefined, "the task must be known")
      equal(idOf(found), id, "id in the task")
      check(found.held !== false, "it must not be said that nobody has it in hand")
      const revision = await peer.put(id, recordOf(posting, "started"))
      const known = await peer.known(id)
      equal(known.revision, revision, "revision")
      check(known.record !== undefined && known.task !== undefined, "record and task must be known")
    },
  },
  {
    group,
    name: "of several tasks of a job the newest is known",
    async run({ peer, fresh, task }) {
      const [queue, other] = [fresh("queue"), fresh("other")]
      const posting = task({ queue })
      const { id } = posting
      await peer.publish(posting)
      const delivery = await peer.one(queue)
      await peer.committed({ id, post: [task({ queue: other, id, retries: 1 })] })
      const newest = async () => (await peer.known(id)).task?.queue
      equal(await newest(), other, "queue of the newest task, while the older one is in hand")
      await peer.release(delivery)
      equal(await newest(), other, "queue of the newest task, when the older one was given back")
      await peer.end(await peer.one(queue))
      equal(await newest(), other, "queue of the newest task, when the older one has ended")
      await peer.end(await peer.one(other))
      equal(await peer.read(id), undefined, "what is known when both have ended")
    },
  },
  {
    group,
    name: "many jobs are answered in the order in which they were asked for, also unknown ones",
    async run({ peer, fresh, tasks }) {
      const queue = fresh("queue")
      const postings = tasks(40, { queue })
      await peer.publish(...postings.filter((_, at) => at % 3 === 0))
      for (const [at, posting] of postings.entries()) {
        if (at % 3 === 1) await peer.put(posting.id, recordOf(posting, "failed"))
      }
      const known = await peer.reads(postings.map(({ id }) => id))
      equal(
        known.map((each) => (each === undefined ? "nothing" : each.task ? "task" : "record")),
        postings.map((_, at) => ["task", "record", "nothing"][at % 3]),
        "what is known",
      )
      equal(await peer.reads([]), [], "answers when nothing is asked for")
    },
  },
  {
    group,
    name: "a read sees every commit that was answered before it began, by any connection",
    async run({ peer, fresh, task, elsewhere, repeats }) {
      const other = await elsewhere()
      const posting = task({ queue: fresh("queue") })
      const { id } = posting
      const peers = [peer, other]
      let expect = ""
      for (const round of repeats(size(60, 1_000))) {
        const [writer = peer, reader = peer] = round % 2 === 0 ? peers : [...peers].reverse()
        expect = await writer.put(id, recordOf(posting, "failed", { expect, says: String(round) }))
        const known = await reader.read(id, round % 4 < 2 ? "record" : "all")
        equal(known?.revision, expect, `revision in round ${round}`)
      }
    },
  },
  {
    group,
    name: "a job in motion is never missing",
    timeout: 40_000,
    async run({ peer, fresh, task, elsewhere, harness }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      const first = task({ queue })
      const { id } = first
      await peer.publish(first)
      const moving = async (): Promise<void> => {
        let expect = ""
        for (let retries = 1; retries <= 12; retries++) {
          const delivery = await peer.one(queue)
          await sleep(5)
          const due = harness.capabilities.delay > 0 && retries % 3 === 1 ? { due: Date.now() + 100 } : {}
          const last = retries === 12
          const record = recordOf(first, last ? "succeeded" : "queued", { expect })
          expect = await peer.end(
            delivery,
            last ? { record } : { record, post: [task({ queue, id, retries, ...due })] },
          )
        }
      }
      let done = false
      let looks = 0
      const looking = async (): Promise<void> => {
        while (!done) {
          check((await other.read(id)) !== undefined, `the job must be known at any time; look ${looks} missed it`)
          looks++
          // A driver in this process may answer without a turn of the event loop, which the other calls need.
          await sleep(1)
        }
      }
      const looked = Promise.all([looking(), looking()])
      await Promise.race([moving(), looked])
      done = true
      await looked
      check(looks > 12, `the job must have been looked for many times: ${looks}`)
      equal(await peer.says(id), "succeeded", "record at the end")
    },
  },
  {
    group,
    name: "a job that goes from its queue to its record is never missing",
    async run({ peer, fresh, task, elsewhere, repeats }) {
      const queue = fresh("queue")
      const other = await elsewhere()
      for (const _ of repeats(size(30, 200))) {
        const posting = task({ queue })
        const { id } = posting
        await peer.publish(posting)
        const delivery = await peer.one(queue)
        let moved = false
        const looking = async (): Promise<void> => {
          do {
            check((await other.read(id)) !== undefined, "the job must be known at any time")
            await sleep(0)
          } while (!moved)
        }
        const looked = Promise.all([looking(), looking(), looking()])
        const moving = peer.end(delivery, { record: recordOf(posting, "succeeded") })
        await moving.finally(() => {
          moved = true
        })
        await looked
      }
    },
  },
  {
    group: "orphans",
    name: "jobs whose posting was lost are named, oldest first, and no others",
    needs: [part("orphans")],
    async run({ peer, fresh, task, tasks, within, until }) {
      const queue = fresh("queue")
      const lost = tasks(3, { queue })
      const [later, whole, ended, held] = [
        task({ queue }),
        task({ queue }),
        task({ queue }),
        task({ queue: fresh("held") }),
      ]
      const early = task({ queue, due: Date.now() + 3_600_000 })
      for (const [at, posting] of lost.entries()) {
        await peer.put(posting.id, recordOf(posting, at === 1 ? "scheduled" : "queued"))
        // The order by time can only be seen where times differ.
        await sleep(3)
      }
      await peer.committed({ id: whole.id, record: recordOf(whole, "queued"), post: [whole] })
      // Its task was to be put forward, and that posting was lost: the one that is due later is still there.
      await peer.committed({ id: early.id, record: recordOf(early, "queued"), post: [early] })
      await peer.put(ended.id, recordOf(ended, "succeeded"))
      await peer.committed({ id: held.id, record: recordOf(held, "queued"), post: [held] })
      await peer.one(held.queue)
      const orphans = (before: number, max: number): Promise<ReadonlyArray<string>> =>
        within("orphans", peer.driver.orphans?.(before, max) ?? Promise.resolve([]))
      const expected = [...lost, early].map(({ id }) => id)
      const found = await until(
        "all that were lost",
        async () => {
          const ids = await orphans(await peer.store.now(), 100)
          return ids.length >= expected.length && ids
        },
        patience(8_000),
      )
      equal(found, expected, "orphans")
      equal(await orphans((await peer.store.now()) - 60_000, 100), [], "orphans of a minute ago")
      await peer.put(later.id, recordOf(later, "queued"))
      const [first] = await orphans(await peer.store.now(), 1)
      equal(first, expected[0], "the oldest")
    },
  },
]
