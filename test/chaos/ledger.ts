/**
 * The ledger of future jobs: each accepted job with a delay or a due time, and each job that a schedule posts, has to run once and
 * in time, although workers are killed, also between the entry of a schedule and its posting, and the broker is away for a while.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import type { Client } from "callboard"
import { jobIdOf } from "../../runtime/schedules/entry.ts"
import type { SharedBoard } from "../e2e/boards.ts"
import { bundled } from "../support/servers/bundle.ts"
import { eventually, type Spawned, spawnScript } from "../support/servers/process.ts"
import { connectWhenUp } from "./connecting.ts"

export interface LedgerOptions {
  readonly jobs: number
  readonly schedules: number
  /** Length of the time in which jobs are due, in seconds. It begins after all jobs were accepted. */
  readonly seconds: number
  readonly workers: number
  readonly lease: number
  /** A worker dies at one of this many postings of a schedule. */
  readonly oneOf: number
  /** How often a worker is killed at any moment, in addition to `oneOf`. */
  readonly kills: number
  readonly restarts: number
  /** Length of the one outage of the broker, in milliseconds; 0: no outage. */
  readonly outageMs: number
  /** How long the due jobs may take after the last fault, in milliseconds. */
  readonly restMs: number
  readonly say?: (line: string) => void
}

export interface LedgerReport {
  readonly accepted: number
  /** Due times of schedules that had to be posted. */
  readonly due: number
  readonly deaths: number
  /** Jobs that ran again, because their worker died, or lost its lease in an outage, before their outcome was stored. */
  readonly reruns: number
  /** Ids of the jobs that never ran; ran before their time (`early`); ran again although their worker lived (`doubled`). */
  readonly missing: ReadonlyArray<string>
  readonly early: ReadonlyArray<string>
  readonly doubled: ReadonlyArray<string>
  /** How late jobs ran, in milliseconds: at most `half` for half of the jobs, `max` for 99 of 100, `last` for the last one. */
  readonly late: { readonly half: number; readonly max: number; readonly last: number }
}

const WORKER = fileURLToPath(new URL("ledger-worker.ts", import.meta.url))
const CHUNK = 1_000
/** Seconds between two due times of a schedule. */
const EVERY = 2
/** Most difference between the broker's and a worker's reading of one machine's clock. */
const TOLERANCE_MS = 20

/** The workers of a run. A worker that dies is replaced. */
const crew = (board: SharedBoard, { lease, oneOf, workers }: LedgerOptions) => {
  const alive = new Set<Spawned>()
  const dead = new Set<number>()
  let isOver = false
  const hire = async (): Promise<void> => {
    const worker = board.keep(spawnScript(bundled(WORKER), [board.url(lease), board.folder, `${oneOf}`]))
    alive.add(worker)
    void worker.exited.then(() => {
      alive.delete(worker)
      dead.add(worker.pid)
      if (!isOver) void hire().catch(() => undefined)
    })
    await worker.waitForLine(/^ready/, 120_000)
  }
  return {
    dead,
    start: () => Promise.all(Array.from({ length: workers }, hire)),
    kill: () => [...alive][Math.floor(Math.random() * alive.size)]?.kill("SIGKILL"),
    end: async () => {
      isOver = true
      const left = [...alive]
      for (const worker of left) worker.kill("SIGKILL")
      await Promise.all(left.map((worker) => worker.exited))
    },
  }
}

/** Submits jobs that are due from `from` on, half with a delay and half with a due time. Resolves with the due times by job id. */
const submitAll = async (client: Client, { jobs, seconds }: LedgerOptions, from: number) => {
  const due = new Map<string, number>()
  for (let at = 0; at < jobs; at += CHUNK) {
    const now = Date.now()
    const times = Array.from({ length: Math.min(CHUNK, jobs - at) }, () =>
      Math.round(from + Math.random() * seconds * 1_000),
    )
    const answers = await client.submitMany(
      times.map((time, index) => ({
        task: "note",
        ...(index % 2 === 0 ? { eta: new Date(time).toISOString() } : { delay: `${Math.max(time - now, 0)} ms` }),
      })),
    )
    for (const [index, answer] of answers.entries()) if ("id" in answer) due.set(answer.id, times[index] ?? 0)
  }
  return due
}

/** The runs of each job, by job id: when, and in which process. */
const runsOf = (folder: string): ReadonlyMap<string, ReadonlyArray<{ readonly at: number; readonly pid: number }>> => {
  const runs = new Map<string, Array<{ at: number; pid: number }>>()
  for (const file of readdirSync(folder).filter((name) => name.startsWith("ledger-"))) {
    const pid = Number(file.slice("ledger-".length))
    for (const line of readFileSync(`${folder}/${file}`, "utf8").split("\n").slice(0, -1)) {
      const [id = "", at = ""] = line.split(" ")
      runs.set(id, [...(runs.get(id) ?? []), { at: Number(at), pid }])
    }
  }
  return runs
}

export const runLedger = async (board: SharedBoard, options: LedgerOptions): Promise<LedgerReport> => {
  const { jobs, schedules, seconds, kills, restarts, outageMs, restMs, say = () => undefined } = options
  const client = board.keep(await connectWhenUp(board.url(options.lease)))
  const team = crew(board, options)
  await team.start()
  // The first job is due late enough that all jobs are accepted before.
  const from = Date.now() + 2_000 + jobs / 2
  const due = await submitAll(client, options, from)
  say(`${due.size} jobs accepted, ${Math.round((from - Date.now()) / 1_000)} s before the first is due`)
  const names = Array.from({ length: schedules }, (_, at) => `ledger-${at}`)
  const begun = new Map<string, number>()
  for (const name of names) {
    const fields = { cron: `*/${EVERY} * * * * *`, catchUp: "all", most: 1_000, task: "note" } as const
    begun.set(name, Date.parse((await client.schedules.create(name, fields)).next ?? ""))
  }

  // A busy machine is late with the schedules: as many of their due times have to be posted all the same.
  const until = Math.max(from, ...begun.values()) + seconds * 1_000
  const faults: Array<() => Promise<unknown>> = [
    ...Array.from({ length: kills }, () => async () => void team.kill()),
    ...Array.from({ length: restarts }, () => async () => board.restartBroker?.()),
    ...(outageMs > 0 ? [async () => board.outage?.(outageMs)] : []),
  ]
  const began = Date.now()
  for (const [at, strike] of faults.entries()) {
    say(`fault ${at}`)
    await sleep(Math.max(0, began + ((until - began) * (at + 1)) / (faults.length + 1) - Date.now()))
    await strike()
  }
  await sleep(Math.max(0, until - Date.now()))
  writeFileSync(`${board.folder}/calm`, "")
  const last = new Map<string, number>()
  for (const name of names) {
    // The schedule is paused once it has posted all that was due. While it is behind, its next due time is in the past.
    const next = await eventually(
      async () => {
        const view = await client.schedules.find(name).catch(() => undefined)
        const time = Date.parse(view?.next ?? "")
        return time > Date.now() && view?.waiting === 0 ? time : undefined
      },
      { deadline: restMs, every: 200, message: `${name} is not behind` },
    )
    await client.schedules.pause(name)
    last.set(name, next)
  }
  for (const name of names)
    for (let time = begun.get(name) ?? 0; time < (last.get(name) ?? 0); time += EVERY * 1_000)
      due.set(jobIdOf(name, time), time)
  say("schedules are paused")
  const accepted = jobs
  await eventually(() => runsOf(board.folder).size >= due.size, { deadline: restMs, every: 2_000 }).catch(
    () => undefined,
  )
  // A job that would run twice does so within two leases: its lease lapses, and the task is delivered again.
  await sleep(2_000 * options.lease)
  const dead = new Set(team.dead)
  await team.end()
  const runs = runsOf(board.folder)
  const late: Array<number> = []
  const early: Array<string> = []
  const doubled: Array<string> = []
  let reruns = 0
  for (const [id, all] of runs) {
    const time = due.get(id)
    if (time === undefined) continue
    const first = Math.min(...all.map(({ at }) => at))
    late.push(first - time)
    if (first < time - TOLERANCE_MS) early.push(id)
    if (all.length === 1) continue
    reruns++
    if (!all.some(({ pid }) => dead.has(pid)) && outageMs === 0) doubled.push(id)
  }
  late.sort((a, b) => a - b)
  const part = (share: number) => late[Math.min(late.length - 1, Math.floor(late.length * share))] ?? 0
  return {
    accepted,
    due: due.size - accepted,
    deaths: dead.size,
    reruns,
    missing: [...due.keys()].filter((id) => !runs.has(id)),
    early,
    doubled,
    late: { half: part(0.5), max: part(0.99), last: part(1) },
  }
}

export const describeLedger = (report: LedgerReport): string => {
  const { accepted, due, deaths, reruns, missing, early, doubled, late } = report
  return `${accepted} jobs and ${due} due times, ${deaths} deaths: ${missing.length} missing, ${early.length} early, ${doubled.length} doubled, ${reruns} ran again; late by ${late.half} ms (half), ${late.max} ms (99 of 100), ${late.last} ms (the last)`
}
