/** A queue that a client of Celery has filled, emptied by a worker of Callboard and by one of Celery. */
import { createClient } from "redis"
import type { Spawned } from "../../support/servers/process.ts"
import type { Board } from "../harness/boards.ts"
import { names, on } from "../harness/contenders.ts"
import { measure, processorOf, startProgram } from "../harness/program.ts"
import { startCeleryWorker } from "../harness/python-contenders.ts"
import { ending } from "../harness/workers.ts"
import { processorColumns, type Workload } from "../harness/workload.ts"
import { startPython } from "../peers/python.ts"
import { redis } from "../peers/redis.ts"
import type { Figures } from "../report/figures.ts"
import type { Form } from "./forms.ts"

/** Share of the jobs that run first and are not counted, while the worker starts and warms up. */
const WARM_UP = 0.2

const DEADLINE_MS = 600_000

/** Fills the queue, then counts the results of a worker until all of them are stored. */
const emptied = async (board: Board, jobs: number, start: (board: Board) => Promise<Spawned>): Promise<Figures> => {
  await measure(await startPython("celery", ["celery_fill.py", jobs], { BENCH_REDIS: board.url }), { clients: [] })
  const results = createClient({ url: `${board.url}/1` })
  await results.connect()
  const reached = async (goal: number): Promise<{ readonly count: number; readonly at: number }> => {
    for (const end = performance.now() + DEADLINE_MS; performance.now() < end; ) {
      const count = await results.dbSize()
      if (count >= goal) return { count, at: performance.now() }
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    throw new Error(`${await results.dbSize()} of ${goal} results in time`)
  }
  const worker = await start(board)
  try {
    return await ending([worker], async () => {
      const first = await reached(jobs * WARM_UP)
      const used = processorOf({ broker: board.broker, clients: [worker.pid] })
      const last = await reached(jobs)
      const counted = jobs - first.count
      return { jobs: counted, perSecond: counted / ((last.at - first.at) / 1_000), ...used() }
    })
  } finally {
    results.destroy()
  }
}

export const celeryQueue = ({ jobs: max }: Form): Workload => {
  const jobs = Math.min(20_000, max)
  const ofCelery = jobs / 4
  return {
    name: "celery",
    title: "A queue that Celery's client has filled",
    note: `${jobs.toLocaleString("en")} tasks of Celery (${ofCelery.toLocaleString("en")} for its own worker) that do nothing, with results in Redis; the first fifth is not counted.`,
    main: "perSecond",
    better: "more",
    columns: [{ key: "perSecond", title: "jobs/s" }, ...processorColumns],
    contenders: [
      {
        name: names.redis,
        durability: redis.durability,
        ratios: { "of Celery": [names.celery] },
        run: () =>
          on(redis, (board) =>
            emptied(board, jobs, async ({ url }) => startProgram("programs/celery-worker.ts", [url])),
          ),
      },
      {
        name: names.celery,
        durability: redis.durability,
        run: () => on(redis, (board) => emptied(board, ofCelery, startCeleryWorker)),
      },
    ],
  }
}
