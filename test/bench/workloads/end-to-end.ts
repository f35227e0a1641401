/** Jobs that do nothing, from submission to the stored result, in one process. */
import { type Board, nats, sqlite } from "../harness/boards.ts"
import { bullmq, bunqueue, fileIn, names, on, ours, raw } from "../harness/contenders.ts"
import { measure, startOn, startProgram } from "../harness/program.ts"
import { celery, rq } from "../harness/python-contenders.ts"
import { processorColumns, type Workload } from "../harness/workload.ts"
import { redis } from "../peers/redis.ts"
import type { Figures } from "../report/figures.ts"
import { BEST_PREFETCH } from "./across.ts"
import type { Form } from "./forms.ts"

/** Slower peers have fewer jobs, which is enough for a rate: about five seconds of each. */
const BUNQUEUE_JOBS = 20_000
const CELERY_JOBS = 5_000
const RQ_JOBS = 500

const fewer = `bunqueue has ${BUNQUEUE_JOBS.toLocaleString("en")} of them, Celery ${CELERY_JOBS.toLocaleString("en")}, RQ ${RQ_JOBS}.`

const ourProgram = (board: Board, jobs: number): Promise<Figures> =>
  measure(startProgram("programs/end-to-end.ts", [board.url, jobs, 200, 0, BEST_PREFETCH]), board)

export const endToEnd = ({ jobs, isFull }: Form): Workload => ({
  name: "end-to-end",
  title: "End to end, one process",
  note: `${jobs.toLocaleString("en")} jobs of 256 bytes that do nothing, submitted 1,000 at a time, with stored results.${isFull ? ` ${fewer}` : ""}`,
  main: "perSecond",
  better: "more",
  columns: [{ key: "perSecond", title: "jobs/s" }, ...processorColumns, { key: "rssMiB", title: "MiB" }],
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
    raw(sqlite, (board) => measure(startProgram("programs/raw-sqlite.ts", [fileIn(board), jobs]), board)),
    raw(nats, (board) => measure(startProgram("programs/raw-nats.ts", [board.url, jobs, 200]), board)),
    ...bullmq(
      (board, port, runtime) => measure(startOn(runtime, "peers/bullmq/end-to-end.js", [port, jobs, 150]), board),
      { everySecond: isFull },
    ),
    ...(isFull
      ? [
          ...bunqueue((board, where) =>
            measure(startProgram("peers/bunqueue/end-to-end.ts", [where, Math.min(jobs, BUNQUEUE_JOBS), 150]), board),
          ),
          celery(Math.min(jobs, CELERY_JOBS)),
          rq(Math.min(jobs, RQ_JOBS)),
        ]
      : []),
  ],
})
