/** Celery and RQ, each with a worker in processes of its own beside the program that submits. */
import type { Spawned } from "../../support/servers/process.ts"
import { startPython } from "../peers/python.ts"
import { redis } from "../peers/redis.ts"
import type { Board } from "./boards.ts"
import { names, on } from "./contenders.ts"
import { measure } from "./program.ts"
import type { Contender } from "./workload.ts"

const CELERY = ["-m", "celery", "-A", "celery_app", "worker", "--pool", "prefork", "--concurrency", "2"]
const QUIET = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "warning"]

/** Starts Celery's worker with two processes. */
export const startCeleryWorker = ({ url }: Board): Promise<Spawned> =>
  startPython("celery", [...CELERY, ...QUIET], { BENCH_REDIS: url })

/** Celery's worker with two processes. */
export const celery = (jobs: number): Contender => ({
  name: names.celery,
  durability: redis.durability,
  run: () =>
    on(redis, async (board) => {
      await using worker = await startCeleryWorker(board)
      const submitter = await startPython("celery", ["celery_submit.py", jobs], { BENCH_REDIS: board.url })
      return await measure(submitter, { ...board, clients: [worker.pid, submitter.pid] })
    }),
})

/** RQ's usual worker, which forks a process for each job. */
export const rq = (jobs: number): Contender => ({
  name: names.rq,
  durability: redis.durability,
  run: () =>
    on(redis, async (board) => {
      const options = ["--url", board.url, "--quiet"]
      await using worker = await startPython("rq", ["-m", "rq.cli", "worker", ...options, "noop"])
      const submitter = await startPython("rq", ["rq_submit.py", board.url, jobs])
      return await measure(submitter, { ...board, clients: [worker.pid, submitter.pid] })
    }),
})
