/** Commits that withdraw tasks, and commits that fail after one of their steps. */

import { delay, freeLeases } from "../../case.ts"
import { check, equal } from "../../check.ts"
import { describe } from "../../peer.ts"
import { type DriverCase, offered, stepwise } from "../case.ts"
import { bytes, idOf, idsOf, recordOf } from "../task.ts"

const group = "commit"

export const withdrawCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "a task that waits is withdrawn and never comes, and its neighbours do",
    async run({ peer, fresh, tasks }) {
      const queue = fresh("queue")
      const [before, posting, after] = tasks(3, { queue })
      check(before !== undefined && posting !== undefined && after !== undefined, "there are three tasks")
      await peer.publish(before, posting, after)
      const { id } = posting
      const revision = await peer.committed({ id, record: recordOf(posting, "cancelled"), task: { kind: "withdraw" } })
      equal(idsOf(await peer.all(queue, 2)), [before.id, after.id], "what comes")
      await peer.none(queue, "the third one was withdrawn")
      equal(await peer.known(id), { revision, record: bytes("cancelled") }, "what is known")
    },
  },
  {
    group,
    name: "a task is withdrawn before it is due",
    needs: [delay],
    async run({ peer, fresh, task, harness }) {
      const queue = fresh("queue")
      const { id, ...rest } = task({ queue, due: Date.now() + 700 })
      await peer.publish({ id, ...rest })
      await peer.committed({ id, task: { kind: "withdraw" } })
      equal(await peer.read(id), undefined, "what is known")
      await peer.none(queue, "it was withdrawn", 700 + harness.capabilities.dueResolution + 400)
    },
  },
  {
    group,
    name: "a task that was given back with a delay is withdrawn",
    needs: [delay],
    async run({ peer, fresh, task, harness }) {
      const queue = fresh("queue")
      const { id, ...rest } = task({ queue })
      await peer.publish({ id, ...rest })
      await peer.release(await peer.one(queue), 700)
      await peer.committed({ id, task: { kind: "withdraw" } })
      await peer.none(queue, "it was withdrawn", 700 + harness.capabilities.dueResolution + 400)
    },
  },
  {
    group,
    name: "all tasks of a job are withdrawn, in whatever queues they wait, and what is posted beside is not",
    async run({ peer, fresh, task }) {
      const [one, two, three] = [fresh("queue"), fresh("other"), fresh("next")]
      const posting = task({ queue: one })
      const { id } = posting
      await peer.publish(posting, task({ queue: two, id, retries: 1 }))
      const follower = task({ queue: three })
      await peer.committed({ id, record: recordOf(posting, "cancelled"), post: [follower], task: { kind: "withdraw" } })
      await peer.none([one, two], "they were withdrawn")
      equal(idOf(await peer.one(three)), follower.id, "what comes")
    },
  },
  {
    group,
    name: "what a commit posts is not withdrawn by it, also when it is a task of the same job",
    needs: [freeLeases],
    async run({ peer, fresh, task }) {
      const [queue, next] = [fresh("queue"), fresh("next")]
      const posting = task({ queue })
      const { id } = posting
      await peer.publish(posting)
      const post = [task({ queue: next, id, run: 2 })]
      await peer.committed({ id, record: recordOf(posting, "queued"), post, task: { kind: "withdraw" } })
      await peer.none(queue, "it was withdrawn")
      equal(idOf(await peer.one(next)), id, "what comes: the task of the next run")
    },
  },
  // ── Steps ─────────────────────────────────────────────────────────────────────────────────────────────────────────
  ...(["record", "post"] as const).map(
    (step): DriverCase => ({
      group,
      name: `a commit that fails after its step ${step} says so with the revision, and has done no later step`,
      needs: [stepwise, offered("failAfter")],
      async run({ peer, fresh, task, harness }) {
        const [queue, next] = [fresh("queue"), fresh("next")]
        const posting = task({ queue })
        const { id } = posting
        await peer.publish(posting)
        const { token } = await peer.one(queue)
        const rest = { post: [task({ queue: next })], task: { kind: "ack", token } } as const
        const heal = harness.failAfter?.(peer.driver, step)
        const answer = await peer.commit({ id, record: recordOf(posting, "succeeded"), ...rest })
        heal?.()
        check(answer.status === "failed", `the commit must fail, it was ${describe(answer)}`)
        const { revision, task: left } = await peer.known(id)
        check(revision !== "", "the record must be stored")
        equal(answer.revision, revision, "revision in the answer")
        check(left !== undefined, "the task must still be there")
        if (step === "record") await peer.none(next, "the commit failed before")
        await peer.committed({ id, ...rest })
        equal((await peer.known(id)).task, undefined, "the task, when the rest is done")
        await peer.one(next)
        await peer.none(next, "it is posted once")
      },
    }),
  ),
]
