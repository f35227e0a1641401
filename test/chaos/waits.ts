/**
 * Deaths around waits, with real processes: workers are killed while jobs wait for signals, sleep and call other jobs. Each job must
 * end once, with what it was sent, and leave nothing behind.
 */
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { CallboardError, type JobHandle } from "callboard"
import { isTerminal } from "../../runtime/protocol/state.ts"
import type { SharedBoard } from "../e2e/boards.ts"
import { DEADLINE } from "../e2e/processes.ts"
import { bundled } from "../support/servers/bundle.ts"
import { eventually, type Spawned, spawnScript } from "../support/servers/process.ts"
import { connectWhenUp } from "./connecting.ts"

export interface WaitDeaths {
  readonly jobs: number
  readonly kills: number
}

export interface WaitReport {
  readonly sent: number
  readonly killed: number
  readonly problems: ReadonlyArray<string>
}

/** The methods that do the same: as a promise, in a process of its own, and as an Effect. */
const HANDLERS = ["run", "run", "apart", "effect"]

const WORKER = fileURLToPath(new URL("wait-worker.ts", import.meta.url))
/** Length of a lease in seconds. */
const LEASE = 2
/** Time between two deaths, in milliseconds. */
const PAUSE_MS = 1_300
/** Longest time until all jobs have ended after the last death. */
const REST_MS = 180_000

/** Starts a worker on a board, and waits until it is ready. */
export const startWaitWorker = async (board: SharedBoard, options: object = {}): Promise<Spawned> => {
  const worker = board.keep(spawnScript(bundled(WORKER), [board.url(LEASE), JSON.stringify(options)]))
  await worker.waitForLine(/^ready/, DEADLINE)
  return worker
}

/** Tries again while the transport cannot be reached. */
const surely = <T>(work: () => Promise<T>): Promise<T> => eventually(work, { deadline: DEADLINE, every: 200 })

export const runWaitDeaths = async (board: SharedBoard, { jobs, kills }: WaitDeaths): Promise<WaitReport> => {
  const client = board.keep(await connectWhenUp(board.url(LEASE)))
  const workers = [await startWaitWorker(board), await startWaitWorker(board)]
  const problems: Array<string> = []
  let sent = 0
  let killed = 0
  const killing = async () => {
    while (killed < kills) {
      await sleep(PAUSE_MS)
      const at = killed % workers.length
      workers[at]?.kill("SIGKILL")
      killed++
      workers[at] = await startWaitWorker(board)
    }
  }
  const signal = async (job: JobHandle, name: string, n: number) => {
    if (Math.random() > 0.3) await sleep(Math.random() * PAUSE_MS * (kills + 1))
    const key = `${name}-${n}`
    await surely(() => job.signal(name, `${name} ${n}`, { key }).then(() => true))
    sent++
    if (Math.random() < 0.5) return
    // Sent again with its key it counts once, also if the job has ended meanwhile.
    await job.signal(name, `${name} ${n} again`, { key }).catch((cause: unknown) => {
      if (!(cause instanceof CallboardError && cause.code === "already-terminal")) problems.push(`job ${n}: ${cause}`)
    })
    sent++
  }
  const flow = async (n: number) => {
    await sleep(Math.random() * PAUSE_MS * kills)
    const how = HANDLERS[n % HANDLERS.length]
    const job = await surely(() => client.submit(`flows.${how}`, { input: { n }, id: `flow-${n}` }))
    const signalled = Promise.all(["one", "two"].map((name) => signal(job, name, n)))
    const result = await job.result({ timeout: (PAUSE_MS * kills + REST_MS) / 1_000 }).catch(String)
    await signalled
    const wanted = JSON.stringify([`one ${n}`, `two ${n}`, 2 * (n + 1)])
    if (JSON.stringify(result) !== wanted) problems.push(`job ${n} ended with ${JSON.stringify(result)}`)
    const record = (await surely(() => client.connection.jobs.find(job.id)))?.record
    if (record?.waits !== undefined || record?.signals !== undefined) problems.push(`job ${n} keeps waits or signals`)
    if (record?.timeline.filter(({ state }) => isTerminal(state)).length !== 1) problems.push(`job ${n} ended twice`)
  }
  await Promise.all([killing(), ...Array.from({ length: jobs }, (_, n) => flow(n))])
  await Promise.all(workers.map((worker) => worker.end()))
  return { sent, killed, problems }
}

const SENDER = fileURLToPath(new URL("signal-sender.ts", import.meta.url))

/** What a job gets of signals that three processes send it at the same moment, the values in order. */
export const sendFromThree = async (board: SharedBoard): Promise<unknown> => {
  const client = board.keep(await connectWhenUp(board.url(LEASE)))
  const worker = await startWaitWorker(board)
  // Each sender has twenty values of its own, and twenty that have the same keys in all of them.
  const job = await client.submit("flows.collect", { input: { n: 80 } })
  const senders = ["a", "b", "c"].map((name) =>
    board.keep(spawnScript(bundled(SENDER), [board.url(LEASE), job.id, name])),
  )
  await Promise.all(senders.map((sender) => sender.waitForLine(/^ready/, DEADLINE)))
  for (const sender of senders) sender.write("\n")
  await Promise.all(senders.map((sender) => sender.waitForLine(/^sent/, DEADLINE)))
  const got = await job.result({ timeout: DEADLINE / 1_000 })
  await worker.end()
  return Array.isArray(got) ? got.toSorted() : got
}

/** Jobs that sleep while the broker is dead: each continues once. */
export const sleepThroughOutage = async (
  board: SharedBoard,
  { jobs, seconds, outageMs }: { readonly jobs: number; readonly seconds: number; readonly outageMs: number },
): Promise<ReadonlyArray<string>> => {
  const client = board.keep(await connectWhenUp(board.url(LEASE)))
  const worker = await startWaitWorker(board)
  const all = await client.submitMany(
    Array.from({ length: jobs }, (_, at) => ({ task: "flows.nap", id: `nap-${at}`, input: { n: seconds } })),
  )
  const isAsleep = async (id: string) => (await client.job(id).find()).waits !== undefined
  await eventually(async () => (await Promise.all(all.map((_, at) => isAsleep(`nap-${at}`)))).every(Boolean), {
    deadline: DEADLINE,
    message: "all sleep",
  })
  await board.blackout?.(outageMs)
  const problems: Array<string> = []
  for (const [at] of all.entries()) {
    const job = client.job(`nap-${at}`)
    const result = await surely(() => job.result({ timeout: 60 }))
    const { attempts, transitions } = await surely(() => job.find())
    const ends = transitions.filter(({ state }) => isTerminal(state)).length
    if (result !== seconds || attempts !== 1 || ends !== 1) problems.push(`job ${at}: ${result}, ${attempts}, ${ends}`)
  }
  await worker.end()
  return problems
}
