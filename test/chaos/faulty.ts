/**
 * Deliberately broken builds: a transport, or a worker, that breaks one rule about the end of attempts. The checker has to catch
 * each of them; a checker that misses one would also miss a real fault.
 */
import { connectTransport } from "../../runtime/connection/connect.ts"
import type { LiftedPlugin } from "../../runtime/transport/job-store/plugin.ts"
import type { Jobs, SettleAnswer, Settlement, Transport } from "../../runtime/transport/job-store/transport.ts"
import { watchStore } from "../../runtime/transport/job-store/watch-store.ts"
import type { Store } from "../../runtime/transport/store.ts"

export type Fault =
  /** The transport acks a task before it stores the outcome. */
  | "ack-first"
  /** The transport publishes follow-ups after the ack. */
  | "follow-ups-last"
  /** The transport stores an outcome although another delivery has claimed the job. */
  | "no-fence"
  /** The transport loses the edges between jobs, so that dependents are not released. */
  | "no-edges"
  /** The transport never answers some commits of outcomes, so that the workers keep these deliveries for ever. */
  | "no-answer"
  /** Jobs whose worker died while they ran are run beside one another. */
  | "suspects-together"
  /** A worker does not notice that stuck handlers hold all of its slots. */
  | "no-stuck-watch"

export const FAULTS: ReadonlyArray<Fault> = [
  "ack-first",
  "follow-ups-last",
  "no-fence",
  "no-edges",
  "no-answer",
  "suspects-together",
  "no-stuck-watch",
]
export const isFault = (text: string): text is Fault => (FAULTS as ReadonlyArray<string>).includes(text)

/** Pause between two writes that belong together, in milliseconds: long enough for a kill to come between them. */
const GAP_MS = 60
/** Share of the commits of outcomes that are not answered. */
const UNANSWERED = 0.03
const gap = () => new Promise<void>((resolve) => setTimeout(resolve, GAP_MS))

/** `faulty:<url>`: the transport of that URL, with the fault. */
export const faulty = (fault: Fault): LiftedPlugin => ({
  schemes: ["faulty"],
  connect: async (url, options) => {
    const inner = await connectTransport(url.href.replace(/^faulty:/, ""), {
      namespace: options.namespace,
      leaseMs: options.lease,
      name: options.name,
      timeoutMs: options.timeout,
    })
    const jobs: Jobs = Object.assign(Object.create(inner.jobs), {
      end: endWith(fault, inner),
      ...(fault === "suspects-together" ? { begin: beginWithoutSuspects(inner) } : {}),
    })
    return Object.assign(Object.create(inner), {
      jobs,
      ...(fault === "no-edges" ? { store: withoutEdges(inner.store) } : {}),
      close: () => inner.close(),
      onStatus: inner.onStatus.bind(inner),
    })
  },
})

const beginWithoutSuspects =
  ({ jobs }: Transport): Jobs["claim"] =>
  (starts) =>
    jobs.claim(starts.map((start) => ({ ...start, unlessSuspect: false })))

const withoutEdges = (store: Store): Store => ({
  get: (key) => store.get(key),
  write: (operations) => store.write(operations),
  now: () => store.now(),
  list: async (options) => (options.prefix.startsWith(EDGES) ? [] : store.list(options)),
  watch: async (prefix, listener, signal) =>
    prefix.startsWith(EDGES) ? undefined : watchStore(store, prefix, listener, signal),
})

const EDGES = "after/"

const endWith =
  (fault: Fault, inner: Transport) =>
  async (ends: ReadonlyArray<Settlement>): Promise<ReadonlyArray<SettleAnswer>> => {
    const { jobs } = inner
    switch (fault) {
      case "ack-first": {
        const answers = await jobs.settle(ends.map(({ token, then }) => ({ token, then })))
        await gap()
        for (const { record } of ends) {
          if (record === undefined) continue
          const found = await jobs.find(record.id)
          await jobs.decide([
            {
              id: record.id,
              expect: found?.revision ?? "",
              record,
              ...(record.followUps ? { post: record.followUps } : {}),
            },
          ])
        }
        return answers
      }
      case "follow-ups-last": {
        const answers = await jobs.settle(ends.map(({ followUps: _, ...rest }) => rest))
        await gap()
        await jobs.publish(ends.flatMap((end, at) => (answers[at]?.status === "ended" ? (end.followUps ?? []) : [])))
        return answers
      }
      case "no-fence": {
        const answers = [...(await jobs.settle(ends))]
        for (const [at, { record, followUps }] of ends.entries()) {
          if (answers[at]?.status !== "superseded" || record === undefined) continue
          const found = await jobs.find(record.id)
          if (found === undefined) continue
          await jobs.decide([
            { id: record.id, expect: found.revision, record, ...(followUps ? { post: followUps } : {}) },
          ])
          answers[at] = { status: "ended" }
        }
        return answers
      }
      case "no-answer": {
        const answers = await jobs.settle(ends)
        return Math.random() < UNANSWERED ? new Promise(() => undefined) : answers
      }
      default:
        return jobs.settle(ends)
    }
  }
