/** Mutants of how tasks are taken: waiting, order, due times and leases. */
import type { Commit, Delivery, Driver, Taken } from "../../../../runtime/transport/driver.ts"
import { sleep } from "../../stage.ts"
import { idOf } from "../task.ts"
import {
  answers,
  batches,
  breaking,
  broken,
  commits,
  type DriverMutant,
  deliveries,
  namespacesMixed,
  postings,
  requests,
} from "./mutant.ts"
import { forgetful } from "./publish.ts"

const never = new AbortController().signal

type Take = Driver["take"]

const taking = (patch: (take: Take, driver: Driver) => Take): DriverMutant["breaker"] =>
  breaking((driver) => ({ take: patch(driver.take, driver) }))

/** Delivers each task once more with the next take of its queue. */
const doubling = broken(() => {
  const last = new Map<string, Delivery>()
  return ({ take }) => ({
    take: async (request, signal) => {
      const again = request.queues.flatMap((name) => last.get(name) ?? [])
      for (const name of request.queues) last.delete(name)
      if (again.length > 0) return { deliveries: again.slice(0, request.max) }
      const taken = await take(request, signal)
      for (const delivery of taken.deliveries) last.set(delivery.queue, delivery)
      return taken
    },
  })
})

const cling = async ({ extend }: Driver, token: string): Promise<void> => {
  for (let at = 0; at < 4; at++) {
    await sleep(800)
    await extend([token]).catch(() => [])
  }
}

/** Extends leases although the holder of the delivery did not ask for it. */
const clinging = taking((take, driver) => async (request, signal) => {
  const taken = await take(request, signal)
  for (const { token } of taken.deliveries) void cling(driver, token)
  return taken
})

const extending = (
  answer: (driver: Driver, tokens: ReadonlyArray<string>) => Promise<ReadonlyArray<boolean>>,
): DriverMutant["breaker"] => breaking((driver) => ({ extend: (tokens) => answer(driver, tokens) }))

/**
 * Looks through queues and levels one by one, and does not look again at those above, where tasks may have come since.
 */
const believing = taking((take) => async (request, signal) => {
  const deliveries: Array<Delivery> = []
  for (const name of request.queues) {
    const max = request.max - deliveries.length
    if (max > 0) deliveries.push(...(await take({ ...request, queues: [name], max, wait: 0 }, signal)).deliveries)
    await sleep(1)
  }
  return { deliveries }
})

/** Treats a queue that was empty as empty in the next take, too. */
const remembering = broken(() => {
  let empty = new Set<string>()
  return ({ take }) => ({
    take: async (request, signal) => {
      const queues = request.queues.filter((name) => !empty.has(name))
      const taken = await take({ ...request, queues }, signal)
      const came = new Set(taken.deliveries.map((delivery) => delivery.queue))
      empty = new Set(queues.filter((name) => !came.has(name)))
      return taken
    },
  })
})

/** Answers `publish` a moment before a take can see the task. */
const hasty = breaking(({ publish }) => ({
  publish: async (each) => {
    void sleep(2).then(() => publish(each).catch(() => undefined))
    return each.map(() => ({ status: "stored" }))
  },
}))

const dueEarlier = batches((each) =>
  each.map((posting) => (posting.due === undefined ? posting : { ...posting, due: posting.due - 600 })),
)

/** Accepts tokens of older deliveries in place of the newest token of a task. */
const overtaking = broken(() => {
  const jobs = new Map<string, string>()
  const newest = new Map<string, string>()
  const current = (token: string): string => newest.get(jobs.get(token) ?? "") ?? token
  return ({ take, commit, extend }) => ({
    take: async (request, signal) => {
      const taken = await take(request, signal)
      for (const delivery of taken.deliveries) {
        jobs.set(delivery.token, idOf(delivery))
        newest.set(idOf(delivery), delivery.token)
      }
      return taken
    },
    extend: (tokens) => extend(tokens.map(current)),
    commit: (each) =>
      commit(
        each.map(({ task, ...rest }) => {
          if (task === undefined) return rest
          return { ...rest, task: task.kind === "withdraw" ? task : { ...task, token: current(task.token) } }
        }),
      ),
  })
})

/** Accepts a token after its delivery has ended. */
const unspent = broken(() => {
  const known = new Set<string>()
  return ({ take, extend }) => ({
    take: async (request, signal) => {
      const taken = await take(request, signal)
      for (const { token } of taken.deliveries) known.add(token)
      return taken
    },
    extend: async (tokens) => (await extend(tokens)).map((answer, at) => answer || known.has(tokens[at] ?? "")),
  })
})

/** Refuses tokens whose lease is over: to extend them, or to end and give back their tasks. */
const punctual =
  (what: "extend" | "commit"): DriverMutant["breaker"] =>
  () => {
    const ends = new Map<string, number>()
    const current = (token: string): string => ((ends.get(token) ?? 0) < Date.now() ? "" : token)
    return (connect) => async (options) => {
      const driver = await connect(options)
      const take: Take = async (request, signal) => {
        const taken = await driver.take(request, signal)
        for (const { token } of taken.deliveries) ends.set(token, Date.now() + options.lease)
        return taken
      }
      if (what === "extend") return { ...driver, take, extend: (tokens) => driver.extend(tokens.map(current)) }
      const now = (commit: Commit): Commit =>
        commit.task && commit.task.kind !== "withdraw"
          ? { ...commit, task: { ...commit.task, token: current(commit.task.token) } }
          : commit
      return { ...driver, take, commit: (each) => driver.commit(each.map(now)) }
    }
  }

/** Removes a task although a delivery has it, and acks without looking for it. */
const rash = broken(() => {
  const tokens = new Map<string, string>()
  return ({ take, commit }) => ({
    take: async (request, signal) => {
      const taken = await take(request, signal)
      for (const delivery of taken.deliveries) tokens.set(idOf(delivery), delivery.token)
      return taken
    },
    commit: async (each) => {
      const answers = await commit(each)
      for (const { id, task } of each) {
        const token = tokens.get(id)
        if (task?.kind === "withdraw" && token !== undefined) await commit([{ id, task: { kind: "ack", token } }])
      }
      return answers.map((answer) =>
        answer.status === "committed" ? { status: "committed", revision: answer.revision } : answer,
      )
    },
  })
})

const OURS =
  "lease: extending says for each token whether it has its task: not when another delivery has it, nor when it ended"
const FIRST = "lease: first is said of the first delivery of a task, and never when it was handed over before"
const SPENT = "is spent: it extends, ends and gives back nothing"
const OVERTAKEN = "of an overtaken delivery does nothing to the task, and says so; its record counts"

export const takeMutants: ReadonlyArray<DriverMutant> = [
  {
    breaks: "take: an empty queue is waited for about as long as asked, then there is nothing",
    breaker: requests((request) => ({ ...request, wait: 0 })),
  },
  {
    breaks: "take: without a wait there is an answer at once",
    breaker: requests((request) => ({ ...request, wait: Math.max(request.wait, 4_000) })),
  },
  { breaks: "take: what was accepted is there for the next take, also for one that does not wait", breaker: hasty },
  {
    breaks: "take: never more than max come, and the rest stays",
    breaker: requests((request) => ({ ...request, max: request.max + 1 })),
  },
  {
    breaks: "take: what is there comes without waiting for max",
    breaker: taking((take) => async (request, signal) => {
      const taken = await take(request, signal)
      if (taken.deliveries.length < request.max) await sleep(request.wait - 1_000)
      return taken
    }),
  },
  {
    breaks: "take: a take that waits is woken by a task from another connection",
    breaker: taking((take) => async (request, signal) => {
      const taken = await take({ ...request, wait: 0 }, signal)
      if (taken.deliveries.length > 0 || request.wait === 0) return taken
      await sleep(Math.min(request.wait, 4_000))
      return take({ ...request, wait: 0 }, signal)
    }),
  },
  { breaks: "take: a task in hand is given to nobody else", breaker: doubling },
  { breaks: "take: takes at the same time never share a task, and all tasks come", breaker: doubling },
  {
    breaks: "take: several queues: the first listed is emptied first",
    breaker: requests((request) => ({ ...request, queues: [...request.queues].reverse() })),
  },
  { breaks: "take: with rotate the queues take turns", breaker: requests((each) => ({ ...each, rotate: false })) },
  {
    breaks: "take: with rotate the turns go on from one take to the next",
    breaker: requests((request) => ({ ...request, rotate: request.max > 1 })),
  },
  {
    breaks: "take: with rotate an empty queue costs no turn",
    breaker: requests((request) => ({ ...request, max: Math.ceil(request.max / request.queues.length) })),
  },
  {
    breaks: "take: an aborted take ends soon and strands nothing",
    breaker: taking(
      (take) => (request, signal) =>
        take({ ...request, wait: Math.min(request.wait, 4_000) }, signal.aborted ? signal : never),
    ),
  },
  {
    breaks: "take: a take that is aborted while tasks arrive strands none of them",
    breaker: taking(
      (take) => (request, signal) =>
        Promise.race([
          take({ ...request, wait: Math.min(request.wait, 4_000) }, never),
          new Promise<Taken>((resolve) => signal.addEventListener("abort", () => resolve({ deliveries: [] }))),
        ]),
    ),
  },
  {
    breaks: "take: what an aborted take gives back does not count as delivered",
    breaker: taking((take, { commit }) => async (request, signal) => {
      const taken = await take({ ...request, wait: Math.min(request.wait, 200) }, signal.aborted ? signal : never)
      if (!signal.aborted || taken.deliveries.length === 0) return taken
      const release = (token: string) => ({ kind: "hand-back", token, delay: 0 }) as const
      await commit(taken.deliveries.map((delivery) => ({ id: idOf(delivery), task: release(delivery.token) })))
      return { deliveries: [] }
    }),
  },
  {
    breaks:
      "take: what a take gives back whose signal fires on its way comes again at once, and does not count as delivered",
    breaker: taking((take, { commit }) => async (request, signal) => {
      const taken = await take(request, signal)
      if (!signal.aborted) return taken
      const release = (token: string) => ({ kind: "hand-back", token, delay: 0 }) as const
      await commit(taken.deliveries.map((delivery) => ({ id: idOf(delivery), task: release(delivery.token) })))
      return { deliveries: [] }
    }),
  },
  {
    breaks: "take: a take whose signal has fired takes nothing",
    breaker: taking((take) => (request, signal) => take(request, signal.aborted ? never : signal)),
  },
  {
    breaks:
      "take: an empty take says when something falls due or loses its lease, or nothing, and never too late a time",
    breaker: taking((take) => async (request, signal) => {
      const { next, ...taken } = await take(request, signal)
      return next === undefined ? taken : { ...taken, next: next + 30_000 }
    }),
  },
  {
    breaks: "take: queues are apart",
    breaker: broken(() => {
      const names = new Set<string>()
      return ({ publish, take }) => ({
        publish: (each) => {
          for (const posting of each) names.add(posting.queue)
          return publish(each)
        },
        take: (request, signal) => take({ ...request, queues: [...request.queues, ...names] }, signal),
      })
    }),
  },
  { breaks: "take: namespaces are apart, down to publish keys", breaker: namespacesMixed },
  {
    breaks: "order: tasks of one level come in the order in which they were published",
    breaker: batches((each) => [...each].reverse()),
  },
  {
    breaks: "order: a task keeps its sequence and its place when it comes again",
    // Puts a task that is given back behind the waiting tasks, as if it were published again.
    breaker: commits(({ task, ...rest }) => {
      if (task === undefined) return rest
      return { ...rest, task: task.kind === "hand-back" ? { ...task, delay: task.delay + 100 } : task }
    }),
  },
  {
    breaks: "order: a task that has fallen due comes before lower ones",
    // What falls due joins the end of its queue.
    breaker: postings((posting) => (posting.due === undefined ? posting : { ...posting, level: 0 })),
  },
  ...["was given back with a delay", "has lost its lease"].map(
    (how): DriverMutant => ({
      breaks: `order: a task that ${how} comes before later ones of its level`,
      // What comes again joins the end of its queue.
      breaker: taking((take) => async (request, signal) => {
        const { deliveries, ...rest } = await take(request, signal)
        const [first, again] = [true, false].map((isFirst) => deliveries.filter((each) => each.first === isFirst))
        return { ...rest, deliveries: [...(first ?? []), ...(again ?? [])] }
      }),
    }),
  ),
  {
    breaks: "order: tasks come in the order in which they were published, over whichever connections",
    // Each connection counts sequences by itself.
    breaker: broken(() => {
      const sequences = new Map<string, number>()
      return ({ publish, take }) => {
        let count = 0
        return {
          publish: (each) => {
            for (const { id } of each) sequences.set(id, count++)
            return publish(each)
          },
          take: async (request, signal) => {
            const { deliveries, ...rest } = await take(request, signal)
            const of = (each: Delivery): number => sequences.get(idOf(each)) ?? 0
            return { ...rest, deliveries: [...deliveries].sort((a, b) => of(a) - of(b)) }
          },
        }
      }
    }),
  },
  {
    breaks: "order: higher priorities come first, in as many bands as declared",
    breaker: postings((posting) => ({ ...posting, level: Math.min(posting.level, 8) })),
  },
  {
    breaks: "order: a task for the front comes before priority 9",
    breaker: postings((posting) => ({ ...posting, level: Math.min(posting.level, 9) })),
  },
  {
    breaks: "order: priorities count across batches and connections",
    breaker: batches((each) =>
      [...each].sort((a, b) => b.level - a.level).map((posting) => ({ ...posting, level: 4 })),
    ),
  },
  { breaks: "order: a take that begins when a higher task has been accepted brings that one first", breaker: hasty },
  {
    breaks: "order: what is accepted while a take is under way comes after what that take brings, at the latest",
    breaker: remembering,
  },
  { breaks: "order: what was accepted before a lower task was published comes before it", breaker: believing },
  { breaks: "delay: a task is not early and not late", breaker: dueEarlier },
  { breaks: "delay: a task is not early for takes that do not wait", breaker: dueEarlier },
  {
    breaks: "delay: a due time in the past is no delay",
    breaker: postings((posting) => ({ ...posting, due: Math.max(posting.due ?? 0, Date.now() + 4_000) })),
  },
  {
    breaks: "delay: a task that is due later holds nobody up",
    breaker: batches((each) =>
      each.map((posting) => ({ ...posting, due: Math.max(...each.map(({ due }) => due ?? 0)) })),
    ),
  },
  {
    breaks: "delay: a task that is due as late as it may be waits, and its due time is read",
    // A due time beyond 31 bits of milliseconds is due at once, as with a timer that overflows.
    breaker: postings((posting) => ({
      ...posting,
      due: (posting.due ?? 0) - Date.now() > 2 ** 31 ? 0 : (posting.due ?? 0),
    })),
  },
  {
    breaks: "delay: many tasks that are due at the same moment all come",
    breaker: batches((each) => each.slice(0, 50)),
  },
  { breaks: "delay: the same publish key is a duplicate while the task is scheduled", breaker: forgetful },
  {
    breaks: "lease: a delivery that is not ended comes again after its lease, not before, with a higher fence",
    breaker: taking((take, { commit }) => async (request, signal) => {
      const taken = await take(request, signal)
      for (const { token } of taken.deliveries) {
        void sleep(100).then(() =>
          commit([{ id: token, task: { kind: "hand-back", token, delay: 0 } }]).catch(() => []),
        )
      }
      return taken
    }),
  },
  { breaks: FIRST, breaker: deliveries((delivery) => ({ ...delivery, first: true })) },
  {
    breaks: FIRST,
    // Each connection decides `first` by its own deliveries alone.
    breaker: breaking(({ take }) => {
      const seen = new Set<string>()
      return {
        take: async (request, signal) => {
          const taken = await take(request, signal)
          const deliveries = taken.deliveries.map((each) => ({ ...each, first: !seen.has(idOf(each)) }))
          for (const each of deliveries) seen.add(idOf(each))
          return { ...taken, deliveries }
        },
      }
    }),
  },
  {
    breaks: "lease: a lease that is extended in time does not lapse",
    breaker: extending(async (_, tokens) => tokens.map(() => true)),
  },
  {
    breaks: "lease: an extension lasts one lease from then",
    breaker: extending(async (driver, tokens) => {
      for (const token of tokens) void cling(driver, token)
      return driver.extend(tokens)
    }),
  },
  { breaks: OURS, breaker: extending(async ({ extend }, tokens) => (await extend(tokens)).map(() => true)) },
  { breaks: OURS, breaker: overtaking },
  {
    breaks: "lease: what was never a token has no task, and harms no other",
    breaker: extending(async ({ extend }, tokens) => {
      const found = await extend(tokens)
      const first = found.indexOf(false)
      return found.map((answer, at) => answer && (first < 0 || at < first))
    }),
  },
  {
    breaks: "lease: a token works on another connection",
    breaker: breaking(({ take, extend }) => {
      const own = new Set<string>()
      return {
        take: async (request, signal) => {
          const taken = await take(request, signal)
          for (const { token } of taken.deliveries) own.add(token)
          return taken
        },
        extend: (tokens) => extend(tokens.map((token) => (own.has(token) ? token : ""))),
      }
    }),
  },
  { breaks: "lease: a lease lapses although nobody takes", breaker: clinging },
  ...(["extend", "commit"] as const).map(
    (what): DriverMutant => ({
      breaks: "lease: a lease that is over holds until another delivery has the task: it extends, ends and gives back",
      breaker: punctual(what),
    }),
  ),
  {
    breaks:
      "lease: of an ack and a return of one delivery at the same time one is done, and the task is as the answers say",
    // Says that it is done, whether the task is there or not.
    breaker: answers((answer) =>
      answer.status === "committed" ? { status: "committed", revision: answer.revision } : answer,
    ),
  },
  {
    breaks: "lease: of a take and a withdrawal at the same time, a task that was removed is not said to be acked",
    breaker: rash,
  },
  {
    breaks: "lease: fences rise over many deliveries of one task, compared as text",
    // Pads the fence to two digits, which is right for the first 99 deliveries only.
    breaker: deliveries((delivery) => ({ ...delivery, fence: String(delivery.deliveries).padStart(2, "0") })),
  },
  ...["acked", "given back"].map((how) => ({
    breaks: `lease: a token whose task was ${how} ${SPENT}`,
    breaker: unspent,
  })),
  {
    breaks: `lease: a token whose task was given back ${SPENT}`,
    // After an ack, withdraws the task of the job, which no delivery has any more.
    breaker: answers(async (answer, { id, task }, driver) => {
      if (task?.kind === "ack") await driver.commit([{ id, task: { kind: "withdraw" } }])
      return answer
    }),
  },
  {
    breaks: `lease: a token whose task was given back ${SPENT}`,
    // Leaves `gone` out of the answer, as if the task had been ended.
    breaker: answers((answer) =>
      answer.status === "committed" ? { status: "committed", revision: answer.revision } : answer,
    ),
  },
  { breaks: `lease: the ack ${OVERTAKEN}`, breaker: overtaking },
  { breaks: `lease: the hand-back ${OVERTAKEN}`, breaker: overtaking },
  {
    breaks: `lease: the ack ${OVERTAKEN}`,
    // Leaves `gone` out of the answer, as if the task had been ended.
    breaker: answers((answer) =>
      answer.status === "committed" ? { status: "committed", revision: answer.revision } : answer,
    ),
  },
]
