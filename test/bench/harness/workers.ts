/** Workers in processes of their own, beside a process that submits. */
import type { Spawned } from "../../support/servers/process.ts"
import type { Figures } from "../report/figures.ts"
import type { Board } from "./boards.ts"
import { figuresOf, lastFigures, measure, processorOf, ready } from "./program.ts"

/** How the processes of one system are started. */
export interface Programs {
  worker(): Spawned
  submitter(warmUp: number, jobs: number): Spawned
}

/** Jobs that the workers of a run settle at most: what is left after this is lost. */
const DEADLINE_MS = 600_000

const progressOf = (workers: ReadonlyArray<Spawned>): ReadonlyArray<Figures> =>
  workers.map((worker) => {
    if (worker.exit !== undefined) throw new Error(`a worker ended:\n${worker.output.slice(-2_000)}`)
    return lastFigures(worker) ?? { settled: 0, first: Number.POSITIVE_INFINITY, last: 0, rssMiB: 0 }
  })

const sum = (progress: ReadonlyArray<Figures>, key: string): number =>
  progress.reduce((total, figures) => total + (figures[key] ?? 0), 0)

/** Waits until the workers together have settled so many, and gives what each has said last. */
const settled = async (workers: ReadonlyArray<Spawned>, goal: number): Promise<ReadonlyArray<Figures>> => {
  const end = performance.now() + DEADLINE_MS
  for (;;) {
    const progress = progressOf(workers)
    if (sum(progress, "settled") >= goal) return progress
    if (performance.now() > end) throw new Error(`${sum(progress, "settled")} of ${goal} jobs settled in time`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** Ends processes that were started for a measurement, however that ends. */
export const ending = async <A>(processes: ReadonlyArray<Spawned>, run: () => Promise<A>): Promise<A> => {
  try {
    return await run()
  } finally {
    await Promise.all(processes.map((each) => each.end()))
  }
}

/** End to end from one process to another: from the first submission until the worker has settled the last job. */
export const acrossProcesses = async (board: Board, programs: Programs, jobs: number): Promise<Figures> => {
  const warmUp = Math.min(5_000, jobs)
  const worker = programs.worker()
  return ending([worker], async () => {
    await ready(worker)
    worker.write("go\n")
    await worker.waitForLine(/^\{/)
    const submitter = programs.submitter(warmUp, jobs)
    return ending([submitter], async () => {
      await ready(submitter)
      await settled([worker], warmUp)
      const used = processorOf({ broker: board.broker, clients: [worker.pid, submitter.pid] })
      submitter.write("go\n")
      const [progress] = await settled([worker], warmUp + jobs)
      const processor = used()
      const { began = Number.NaN, submitPerSecond = Number.NaN } = await figuresOf(submitter)
      const seconds = ((progress?.["last"] ?? Number.NaN) - began) / 1_000
      return { jobs, perSecond: jobs / seconds, submitPerSecond, rssMiB: progress?.["rssMiB"] ?? 0, ...processor }
    })
  })
}

/** A program that submits and waits, beside an idle worker in a process of its own. */
export const besideWorker = async (board: Board, worker: Spawned, program: () => Spawned): Promise<Figures> =>
  ending([worker], async () => {
    await ready(worker)
    worker.write("go\n")
    await worker.waitForLine(/^\{/)
    const running = program()
    return measure(running, { broker: board.broker, clients: [worker.pid, running.pid] })
  })

/** Workers that begin together on a backlog, until nothing is left: from the first job settled to the last. */
export const draining = async (board: Board, programs: Programs, workers: number, jobs: number): Promise<Figures> => {
  await measure(programs.submitter(0, jobs), { clients: [] })
  const started = Array.from({ length: workers }, () => programs.worker())
  return ending(started, async () => {
    await Promise.all(started.map(ready))
    const used = processorOf({ broker: board.broker, clients: started.map(({ pid }) => pid) })
    for (const worker of started) worker.write("go\n")
    const progress = await settled(started, jobs)
    const processor = used()
    const first = Math.min(...progress.map((each) => each["first"] || Number.POSITIVE_INFINITY))
    const seconds = (Math.max(...progress.map((each) => each["last"] ?? 0)) - first) / 1_000
    const fewest = Math.min(...progress.map((each) => each["settled"] ?? 0))
    return {
      jobs,
      perSecond: jobs / seconds,
      fewest: (100 * fewest * workers) / jobs,
      rssMiB: sum(progress, "rssMiB"),
      ...processor,
    }
  })
}
