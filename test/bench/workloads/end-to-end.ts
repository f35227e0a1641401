/** Jobs that do nothing, from submission to the stored result, in one process. */
import { type Board, nats, sqlite } from "../harness/boards.ts"
import { bullmq, bunqueue, fileIn, names, on, ours, raw } from "../harness/contenders.ts"
import { measure, startOn, startProgram } from "../harness/program.ts"
import { celery, rq } from "../harness/python-contenders.ts"
import { type Contender, processorColumns, type Workload } from "../harness/workload.ts"
import { redis } from "../peers/redis.ts"
import type { Figures } from "../report/figures.ts"
import { BEST_PREFETCH } from "./across.ts"
import type { Form } from "./forms.ts"

/** Slower peers have fewer jobs, which is enough for a rate: about five seconds of each. */
const BUNQUEUE_JOBS = 20_000
const CELERY_JOBS = 5_000
const RQ_JOBS = 500

/** How many times as many jobs the longer run has: by its end the compilers of all runtimes have long been warm. */
const LONGER = 4

const fewer = `bunqueue has ${BUNQUEUE_JOBS.toLocaleString("en")} of them, Celery ${CELERY_JOBS.toLocaleString("en")}, RQ ${RQ_JOBS}.`

const ourProgram = (board: Board, jobs: number): Promise<Figures> =>
  measure(startProgram("programs/end-to-end.ts", [board.url, jobs, 200, 0, BEST_PREFETCH]), board)

const bullmqRows = (jobs: number, everySecond: boolean): ReadonlyArray<Contender> =>
  bullmq((board, port, runtime) => measure(startOn(runtime, "peers/bullmq/end-to-end.js", [port, jobs, 150]), board), {
    everySecond,
  })

const bunqueueRows = (jobs: number): ReadonlyArray<Contender> =>
  bunqueue((board, where) =>
    measure(startProgram("peers/bunqueue/end-to-end.ts", [where, Math.min(jobs, BUNQUEUE_JOBS), 150]), board),
  )

const rawLoops = (jobs: number): ReadonlyArray<Contender> => [
  raw(sqlite, (board) => measure(startProgram("programs/raw-sqlite.ts", [fileIn(board), jobs]), board)),
  raw(nats, (board) => measure(startProgram("programs/raw-nats.ts", [board.url, jobs, 200]), board)),
]

const shown = {
  main: "perSecond",
  better: "more",
  columns: [{ key: "perSecond", title: "jobs/s" }, ...processorColumns, { key: "rssMiB", title: "MiB" }],
} as const

export const endToEndLonger = ({ jobs }: Form): Workload => ({
  ...shown,
  name: "end-to-end-longer",
  title: "End to end, one process, a longer run",
  note: `${(LONGER * jobs).toLocaleString("en")} of the same jobs; bunqueue has ${BUNQUEUE_JOBS.toLocaleString("en")}.`,
  contenders: [
    ...ours((board) => ourProgram(board, LONGER * jobs), { raw: true }),
    ...rawLoops(LONGER * jobs),
    ...bullmqRows(LONGER * jobs, false),
    ...bunqueueRows(jobs).filter(({ name }) => name === names.bunqueueFile),
  ],
})

export const endToEnd = ({ jobs, isFull }: Form): Workload => ({
  ...shown,
  name: "end-to-end",
  title: "End to end, one process",
  note: `${jobs.toLocaleString("en")} jobs of 256 bytes that do nothing, submitted 1,000 at a time, with stored results.${isFull ? ` ${fewer}` : ""}`,
  contenders: [
    ...ours((board) => ourProgram(board, jobs), { raw: true, python: isFull }),
    ...(isFull
      ? [
          {
            name: names.redis,
            durability: redis.durability,
            ratios: { "of peer": [names.bullmqNode, names.bullmqBun] },
            run: () => on(redis, (board) => ourProgram(board, jobs)),
          },
        ]
      : []),
    ...rawLoops(jobs),
    ...bullmqRows(jobs, isFull),
    ...(isFull ? [...bunqueueRows(jobs), celery(Math.min(jobs, CELERY_JOBS)), rq(Math.min(jobs, RQ_JOBS))] : []),
  ],
})
