/** Mutants of commits: the record, the postings, the task, and the answer. */
import { Buffer } from "node:buffer"
import type { Commit, CommitRecord, Committed, Posting, TaskEnd } from "../../../../runtime/transport/driver.ts"
import type { Index } from "../../../../runtime/transport/known.ts"
import { TransportError } from "../../../../runtime/transport/mod.ts"
import { sleep } from "../../stage.ts"
import { idOf } from "../task.ts"
import { answers, breaking, broken, commits, type DriverMutant, known } from "./mutant.ts"
import { chunksMixed, renamed } from "./publish.ts"

type Breaker = DriverMutant["breaker"]

const UNIQUE = "commit: of unique postings none is stored where one is a duplicate, which the answer names"

/** Changes how a commit ends its task, or leaves it out. */
const ending = (change: (task: TaskEnd) => TaskEnd | undefined): Breaker =>
  commits(({ task, ...rest }) => {
    const changed = task && change(task)
    return changed === undefined ? rest : { ...rest, task: changed }
  })

const recorded = (change: (record: CommitRecord, id: string) => Partial<CommitRecord>): Breaker =>
  commits(({ record, ...rest }) =>
    record === undefined ? rest : { ...rest, record: { ...record, ...change(record, rest.id) } },
  )

/** Changes the postings of commits, and not tasks that are published. */
const posting = (change: (posting: Posting) => ReadonlyArray<Posting>): Breaker =>
  commits(({ post = [], ...rest }) => ({ ...rest, post: post.flatMap(change) }))

/** Stores records without comparing revisions where `when` holds. */
const carefree = (when: (record: CommitRecord, id: string) => boolean, wait = 0): Breaker =>
  breaking(({ commit, read }) => ({
    commit: (each) =>
      Promise.all(
        each.map(async (one): Promise<Committed> => {
          const { record, id } = one
          if (record === undefined || !when(record, id)) return (await commit([one]))[0] ?? { status: "conflict" }
          for (;;) {
            const expect = (await read([id], "record"))[0]?.revision ?? ""
            if (wait > 0 && expect !== record.expect) return { status: "conflict" }
            await sleep(wait)
            const latest = wait > 0 ? ((await read([id], "record"))[0]?.revision ?? "") : expect
            const [answer] = await commit([{ ...one, record: { ...record, expect: latest } }])
            if (answer !== undefined && answer.status !== "conflict") return answer
          }
        }),
      ),
  }))

/** Refuses invalid commits only after their record was stored. */
const recordFirst = breaking(({ commit }) => ({
  commit: (each) =>
    Promise.all(
      each.map(async ({ id, record, ...rest }): Promise<Committed> => {
        const [first] = await commit([{ id, ...(record ? { record } : {}) }])
        if (first?.status !== "committed") return first ?? { status: "conflict" }
        const [second] = await commit([{ id, ...rest }])
        const { revision } = first
        return second === undefined || second.status === "conflict" ? first : { ...second, revision }
      }),
    ),
}))

/** Does the other steps of a commit although its record was in conflict. */
const overriding = (rest: (commit: Commit) => Partial<Commit>): Breaker =>
  answers(async (answer, commit, driver) => {
    if (answer.status === "conflict") await driver.commit([{ id: commit.id, ...rest(commit) }])
    return answer
  })

/** Parts of a commit: its task alone, its postings alone. */
const withTask = ({ task }: Commit): Partial<Commit> => (task ? { task } : {})
const withPost = ({ post }: Commit): Partial<Commit> => (post ? { post } : {})

/** Revisions count the commits of a record, and begin anew when it was removed. */
const counting = broken(() => {
  const counts = new Map<string, number>()
  return ({ commit, read }) => ({
    read: async (ids, what) =>
      (await read(ids, what)).map((each, at) => {
        const count = counts.get(ids[at] ?? "")
        return each && (each.revision === "" || count === undefined ? each : { ...each, revision: String(count) })
      }),
    commit: (each) =>
      Promise.all(
        each.map(async (one): Promise<Committed> => {
          const { record, id } = one
          if (record === undefined) return (await commit([one]))[0] ?? { status: "conflict" }
          const [stored] = await read([id], "record")
          const count = stored === undefined || stored.revision === "" ? 0 : (counts.get(id) ?? 0)
          if (record.expect !== (count === 0 ? "" : String(count))) return { status: "conflict" }
          const [answer] = await commit([{ ...one, record: { ...record, expect: stored?.revision ?? "" } }])
          if (answer?.status !== "committed") return answer ?? { status: "conflict" }
          counts.set(id, count + 1)
          return { ...answer, revision: String(count + 1) }
        }),
      ),
  })
})

/** Keeps the index of the first commit of a record. */
export const firstIndex: Breaker = broken(() => {
  const first = new Map<string, Index>()
  return ({ commit }) => ({
    commit: (each) =>
      commit(
        each.map(({ record, ...rest }) => {
          if (record === undefined) return rest
          const index = first.get(rest.id) ?? record.index
          first.set(rest.id, index)
          return { ...rest, record: { ...record, index } }
        }),
      ),
  })
})

const withdrawingNothing = ending((task) => (task.kind === "withdraw" ? undefined : task))

const BYTES = "commit: a record comes back byte for byte, with the revision that the commit answered"
const LARGE =
  "commit: the largest record that is allowed is stored, and one byte more is refused as too-large and does nothing"
const ALL = "commit: all tasks of a job are withdrawn, in whatever queues they wait, and what is posted beside is not"

export const commitMutants: ReadonlyArray<DriverMutant> = [
  {
    breaks: "commit: what was acked never comes again",
    breaker: ending((task) => (task.kind === "ack" ? undefined : task)),
  },
  {
    breaks: "commit: acking twice harms nobody",
    breaker: answers((answer) =>
      answer.status === "committed" && answer.gone
        ? { status: "failed", error: new TransportError("invalid", "this token is over") }
        : answer,
    ),
  },
  {
    breaks: "commit: what was never a token ends nothing: the task is gone, and the record counts",
    // Skips commits whose delivery has lost its task, records included, and answers that they were done.
    breaker: breaking(({ commit, extend }) => ({
      commit: async (each) => {
        const ours = await extend(each.map(({ task }) => (task && "token" in task ? task.token : "")))
        const good = each.filter(({ task }, at) => !(task && "token" in task) || ours[at])
        const answers = await commit(good)
        return each.map((one) => answers[good.indexOf(one)] ?? { status: "committed", revision: "", gone: true })
      },
    })),
  },
  {
    breaks: "commit: a task that is given back comes again at once",
    breaker: ending((task) => (task.kind === "hand-back" ? { ...task, delay: task.delay + 4_000 } : task)),
  },
  {
    breaks: "commit: a task that is given back with a delay waits so long",
    breaker: ending((task) => (task.kind === "hand-back" ? { ...task, delay: 0 } : task)),
  },
  {
    breaks: "commit: commits of one batch stand alone, in order",
    breaker: breaking(({ commit }) => ({
      commit: async (each) => {
        const answers: Array<Committed> = []
        for (const one of each) {
          const [answer] = await commit([one])
          if (answer?.status !== "committed") return each.map((_, at) => answers[at] ?? { status: "conflict" })
          answers.push(answer)
        }
        return answers
      },
    })),
  },
  {
    breaks: "commit: no commits: no answers",
    breaker: breaking(({ commit }) => ({
      commit: async (each) => (each.length === 0 ? [{ status: "conflict" }] : commit(each)),
    })),
  },
  {
    breaks: "commit: many commits of one batch are all done",
    breaker: breaking(({ commit }) => ({
      commit: async (each) => {
        const answers = await commit(each.slice(0, 128))
        return each.map((_, at) => answers[at] ?? { status: "committed", revision: "1" })
      },
    })),
  },
  { breaks: BYTES, breaker: recorded(({ bytes }) => ({ bytes: Buffer.from(Buffer.from(bytes).toString("utf8")) })) },
  {
    breaks: BYTES,
    // Answers `committed` and stores nothing.
    breaker: breaking(({ commit }) => ({
      commit: async (each) => {
        const answers = await commit(each.map(({ record, ...rest }) => rest))
        return answers.map((answer) => ({ ...answer, revision: "1" }))
      },
    })),
  },
  {
    breaks: BYTES,
    // Answers with the previous revision.
    breaker: answers((answer, { record }) =>
      answer.status === "committed" && record ? { ...answer, revision: `${record.expect}0` } : answer,
    ),
  },
  { breaks: LARGE, breaker: recorded(({ bytes }) => ({ bytes: bytes.subarray(0, 1_000_000) })) },
  { breaks: LARGE, breaker: recorded(({ bytes }) => ({ bytes: chunksMixed(bytes) })) },
  {
    breaks: "commit: what the caller or a reader changes afterwards does not reach the record",
    breaker: broken(() => {
      const kept = new Map<string, Uint8Array>()
      return ({ commit, read }) => ({
        commit: (each) => {
          for (const { id, record } of each) if (record) kept.set(id, record.bytes)
          return commit(each)
        },
        read: async (ids, what) =>
          (await read(ids, what)).map((found, at) => {
            const record = kept.get(ids[at] ?? "")
            return found && record ? { ...found, record } : found
          }),
      })
    }),
  },
  { breaks: "commit: postings of a commit are published, with and without a record", breaker: posting(() => []) },
  {
    breaks: "commit: postings of a commit are published, with and without a record",
    breaker: commits(({ post, ...rest }) => ({ ...rest, ...(rest.record && post ? { post } : {}) })),
  },
  {
    breaks: "commit: a commit without a record that acks a task of a job posts the next one",
    // Forgets the task of the job by its id, after the postings.
    breaker: answers(async (answer, { id, record, post, task }, driver) => {
      if (record === undefined && task?.kind === "ack" && post)
        await driver.commit([{ id, task: { kind: "withdraw" } }])
      return answer
    }),
  },
  {
    breaks: "commit: a commit without a record that withdraws a task of a job posts the next one",
    breaker: commits(({ post, ...rest }) =>
      post === undefined || (rest.record === undefined && rest.task?.kind === "withdraw") ? rest : { ...rest, post },
    ),
  },
  {
    breaks: "commit: postings of a commit without a record are stored although its task is gone",
    // Does nothing where the task is gone.
    breaker: breaking(({ commit, extend }) => ({
      commit: (each) =>
        Promise.all(
          each.map(async (one): Promise<Committed> => {
            const { record, task } = one
            const [isThere = true] = record || !task || task.kind === "withdraw" ? [] : await extend([task.token])
            if (!isThere) return { status: "committed", revision: "", gone: true }
            return (await commit([one]))[0] ?? { status: "conflict" }
          }),
        ),
    })),
  },
  {
    breaks: "commit: a commit posts as many tasks as it is given",
    breaker: commits(({ post, ...rest }) => (post ? { ...rest, post: post.slice(0, 40) } : rest)),
  },
  {
    breaks: "commit: two commits of one batch that post the same task are both done, and it is stored once",
    // Looks for what is stored before the batch, and not for what the batch stores.
    breaker: breaking(({ commit }) => ({
      commit: (each) => {
        const seen = new Set<string>()
        return commit(
          each.map(({ post, ...rest }) => {
            if (post === undefined) return rest
            const own = post.map((one) => (seen.has(one.key) ? renamed(one) : one))
            for (const { key } of post) seen.add(key)
            return { ...rest, post: own }
          }),
        )
      },
    })),
  },
  { breaks: "commit: a posting of a commit keeps its due time", breaker: posting(({ due, ...rest }) => [rest]) },
  {
    breaks: "commit: the same commit once more doubles no posting: a duplicate is as good as stored",
    breaker: posting((each) => [renamed(each)]),
  },
  { breaks: UNIQUE, breaker: commits(({ unique: _unique, ...rest }) => rest) },
  {
    breaks: UNIQUE,
    breaker: answers((answer) => (answer.status === "conflict" && answer.known ? { ...answer, known: [] } : answer)),
  },
  {
    breaks: "commit: of many unique postings none is stored where the last one is a duplicate",
    // Compares the first 40 alone.
    breaker: commits(({ unique, post, ...rest }) =>
      post ? { ...rest, post, ...(unique && post.length <= 40 ? { unique } : {}) } : rest,
    ),
  },
  { breaks: "commit: a posting that is too large is refused before the record is stored", breaker: recordFirst },
  {
    breaks: "commit: a posting or a release beyond what it keeps is refused before the record is stored",
    on: "poor",
    breaker: recordFirst,
  },
  {
    breaks: "commit: a posting for the front is refused before the record is stored, where there is none",
    on: "poor",
    breaker: recordFirst,
  },
  {
    breaks: "commit: the task need not be of the record's job",
    breaker: broken(() => {
      const jobs = new Map<string, string>()
      return ({ take, commit }) => ({
        take: async (request, signal) => {
          const taken = await take(request, signal)
          for (const delivery of taken.deliveries) jobs.set(delivery.token, idOf(delivery))
          return taken
        },
        commit: (each) =>
          commit(
            each.map(({ task, ...rest }) => {
              const isOther = task && task.kind !== "withdraw" && jobs.get(task.token) !== rest.id
              return task === undefined || isOther ? rest : { ...rest, task }
            }),
          ),
      })
    }),
  },
  { breaks: "commit: a record is stored only over the revision that is expected", breaker: carefree(() => true) },
  {
    breaks: "commit: nothing is stored only where not even a hidden record is",
    // Treats a hidden record as absent.
    breaker: () => {
      const hidden = new Set<string>()
      const breaker = carefree(({ expect }, id) => expect === "" && hidden.has(id))()
      return (connect) => async (options) => {
        const driver = await breaker(connect)(options)
        return {
          ...driver,
          commit: async (each) => {
            const found = await driver.commit(each)
            for (const { id, record } of each) if (record?.index.hidden) hidden.add(id)
            return found
          },
        }
      }
    },
  },
  { breaks: "commit: a conflict posts nothing", breaker: overriding(withPost) },
  { breaks: "commit: a conflict acks nothing", breaker: overriding(withTask) },
  { breaks: "commit: a conflict gives nothing back", breaker: overriding(withTask) },
  { breaks: "commit: a conflict withdraws nothing", breaker: overriding(withTask) },
  {
    breaks: "commit: of commits that expect the same at the same time, one is committed",
    // Compares the revision, and stores a moment later.
    breaker: carefree(() => true, 3),
  },
  {
    breaks:
      "commit: a revision never repeats, also when the same is written again or the record was removed in between",
    breaker: counting,
  },
  {
    breaks:
      "commit: a revision never repeats, also when the same is written again or the record was removed in between",
    // Every record has the same revision, as where the content alone decides about it.
    breaker: breaking(({ commit, read }) => ({
      read: async (ids, what) =>
        (await read(ids, what)).map((each) => each && (each.record ? { ...each, revision: "same" } : each)),
      commit: async (each) => {
        const current = await read(
          each.map(({ id }) => id),
          "record",
        )
        const answers = await commit(
          each.map(({ record, ...rest }, at) => {
            const real = record?.expect === "same" ? (current[at]?.revision ?? "9") : record?.expect
            return record === undefined ? rest : { ...rest, record: { ...record, expect: real ?? "" } }
          }),
        )
        return answers.map((answer) => (answer.status === "committed" ? { ...answer, revision: "same" } : answer))
      },
    })),
  },
  {
    breaks: "commit: a record is kept as long as was asked, and removed then",
    breaker: recorded(({ keep }) => (keep === undefined ? {} : { keep: keep / 2 })),
  },
  {
    breaks: "commit: a record is kept as long as was asked, and removed then",
    breaker: commits(({ record, ...rest }) => {
      if (record === undefined) return rest
      const { keep, ...forever } = record
      return { ...rest, record: forever }
    }),
  },
  {
    breaks: "commit: how long a record is kept is replaced by the next one, also by none",
    breaker: broken(() => {
      const first = new Map<string, number>()
      return ({ commit }) => ({
        commit: (each) =>
          commit(
            each.map(({ record, ...rest }) => {
              if (record === undefined) return rest
              const keep = first.get(rest.id) ?? record.keep
              if (keep !== undefined) first.set(rest.id, keep)
              return { ...rest, record: { ...record, ...(keep === undefined ? {} : { keep }) } }
            }),
          ),
      })
    }),
  },
  {
    breaks: "commit: a task that waits is withdrawn and never comes, and its neighbours do",
    breaker: withdrawingNothing,
  },
  { breaks: "commit: a task is withdrawn before it is due", breaker: withdrawingNothing },
  { breaks: "commit: a task that was given back with a delay is withdrawn", breaker: withdrawingNothing },
  { breaks: ALL, breaker: withdrawingNothing },
  {
    breaks: ALL,
    breaker: commits(({ post, ...rest }) => (rest.task?.kind === "withdraw" || !post ? rest : { ...rest, post })),
  },
  {
    breaks: "commit: what a commit posts is not withdrawn by it, also when it is a task of the same job",
    // Looks for tasks to withdraw only after the postings were stored.
    breaker: answers(async (answer, { id, task }, driver) => {
      if (task?.kind === "withdraw") await driver.commit([{ id, task }])
      return answer
    }),
  },
  ...["record", "post"].flatMap((step): ReadonlyArray<DriverMutant> => {
    const breaks = `commit: a commit that fails after its step ${step} says so with the revision, and has done no later step`
    return [
      {
        breaks,
        on: "stepwise",
        breaker: answers((answer) => (answer.status === "failed" ? { status: "failed", error: answer.error } : answer)),
      },
      {
        breaks,
        on: "stepwise",
        // Ends the task although a step before it failed.
        breaker: answers(async (answer, { id, task }, driver) => {
          if (answer.status === "failed" && task) await driver.commit([{ id, task }])
          return answer
        }),
      },
      {
        breaks,
        on: "stepwise",
        // Answers `committed` for a step that failed.
        breaker: answers((answer) =>
          answer.status === "failed" ? { status: "committed", revision: answer.revision ?? "" } : answer,
        ),
      },
    ]
  }),
]

const withoutTask = known((each) => {
  if (each === undefined) return each
  const { task, ...rest } = each
  return rest.record === undefined ? undefined : rest
})

export const readMutants: ReadonlyArray<DriverMutant> = [
  { breaks: "read: a job that waits is known by its task, on any connection", breaker: withoutTask },
  {
    breaks: "read: the due time of a task that waits is known",
    breaker: known((each) => {
      if (each?.task === undefined) return each
      const { due, ...task } = each.task
      return { ...each, task }
    }),
  },
  {
    breaks: "read: a job that is in hand is known by its task, with and without a record",
    breaker: known((each) => {
      if (each === undefined || !each.task?.held) return each
      const { task, ...rest } = each
      return rest
    }),
  },
  {
    breaks: "read: of several tasks of a job the newest is known",
    breaker: broken(() => {
      const first = new Map<string, string>()
      return ({ publish, read }) => ({
        publish: (each) => {
          for (const { id, queue } of each) first.set(id, queue)
          return publish(each)
        },
        read: async (ids, what) =>
          (await read(ids, what)).map((each, at) => {
            const queue = first.get(ids[at] ?? "")
            return each?.task && queue !== undefined ? { ...each, task: { ...each.task, queue } } : each
          }),
      })
    }),
  },
  {
    breaks: "read: many jobs are answered in the order in which they were asked for, also unknown ones",
    breaker: breaking(({ read }) => ({
      read: async (ids, what) => {
        const found = (await read(ids, what)).filter((each) => each !== undefined)
        return ids.map((_, at) => found[at])
      },
    })),
  },
  {
    breaks: "read: a read sees every commit that was answered before it began, by any connection",
    // Caches what it has read for a while.
    breaker: breaking(({ read }) => {
      const kept = new Map<string, ReturnType<typeof read>>()
      return {
        read: (ids, what) => {
          const key = JSON.stringify([ids, what])
          const found = kept.get(key) ?? read(ids, what)
          kept.set(key, found)
          return found
        },
      }
    }),
  },
  {
    breaks: "read: a job in motion is never missing",
    breaker: broken(() => {
      let count = 0
      return ({ read }) => ({
        read: async (ids, what) => (await read(ids, what)).map((each) => (++count % 9 === 0 ? undefined : each)),
      })
    }),
  },
  {
    breaks: "read: a job that goes from its queue to its record is never missing",
    // Reads the place that a job goes to before the one that it comes from.
    breaker: breaking(({ read }) => ({
      read: async (ids, what) => {
        const records = await read(ids, "record")
        await sleep(1)
        const tasks = what === "all" ? await read(ids, what) : []
        return records.map((record, at) => {
          const task = tasks[at]?.task
          return record?.record === undefined && task === undefined
            ? undefined
            : { revision: "", ...record, ...(task ? { task } : {}) }
        })
      },
    })),
  },
  {
    breaks: "orphans: jobs whose posting was lost are named, oldest first, and no others",
    on: "stepwise",
    breaker: breaking(({ orphans }) => ({
      orphans: async (before, max) => [...((await orphans?.(before, 1_000)) ?? [])].reverse().slice(0, max),
    })),
  },
  {
    breaks: "orphans: jobs whose posting was lost are named, oldest first, and no others",
    on: "stepwise",
    // Reports tasks that a delivery has as lost.
    breaker: broken(() => {
      const taken = new Set<string>()
      return ({ take, orphans }) => ({
        take: async (request, signal) => {
          const answer = await take(request, signal)
          for (const delivery of answer.deliveries) taken.add(idOf(delivery))
          return answer
        },
        orphans: async (before, max) => [...((await orphans?.(before, max)) ?? []), ...taken],
      })
    }),
  },
]
