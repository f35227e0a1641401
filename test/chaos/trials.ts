/** Trials: what has broken promises before happens to jobs that run in workers which live, or that wait. */
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { generateId } from "../../runtime/id.ts"
import type { SharedBoard } from "../e2e/boards.ts"
import { livingBy, setClock } from "../support/servers/faketime.ts"
import { spawnScript } from "../support/servers/process.ts"
import { check, type Report } from "./checker.ts"
import { found, type Plan } from "./history.ts"
import { type ChaosOptions, runChaos, type Scene } from "./run.ts"

/** How much of a trial is done. */
export interface Size {
  readonly rounds: number
  /** Jobs of the queue that is deleted. */
  readonly doomed: number
  /** Strikes on workers in PID namespaces. */
  readonly kills: number
}

export const SHORT: Size = { rounds: 1, doomed: 1_000, kills: 2 }
export const LONG: Size = { rounds: 6, doomed: 100_000, kills: 20 }

export interface Trial {
  readonly name: string
  readonly promise: string
  /** The boards that it applies to. */
  readonly boards: ReadonlyArray<string>
  readonly leaseMs: number
  /**
   * Whether it sets the clock by which the workers live. Where all processes of a board share a machine, its clients live by the
   * same clock.
   */
  readonly setsClock?: true
  readonly act: (board: Place, size: Size) => Partial<ChaosOptions>
}

const BROKERS = ["nats", "nats3", "postgres", "redis"]

const plansOf = (count: number, plan: Omit<Plan, "id" | "failures" | "followUps"> & Partial<Plan>): Array<Plan> =>
  Array.from({ length: count }, () => ({ failures: 0, followUps: 0, ...plan, id: generateId() }))

/** Jobs of every kind that only pass through. */
const company = (): ReadonlyArray<Plan> => [
  ...plansOf(4, { kind: "plain" }),
  ...plansOf(2, { kind: "retry", failures: 2 }),
  ...plansOf(2, { kind: "errback", failures: 1, followUps: 1 }),
  ...plansOf(2, { kind: "chain", followUps: 2 }),
]

const blackout = async (scene: Scene, board: Place, ms: number): Promise<void> => {
  if (board.blackout === undefined) throw new Error("the board has no blackout")
  scene.noteOutage()
  await board.blackout(ms)
}

/** Longer than a lease, and than the entry of a worker that is alive stays, which is three heartbeats of two seconds. */
const AWAY_MS = 9_000
/** Before the end of an outage, when a worker starts. */
const EARLY_MS = 1_000
/**
 * How long the workers that run jobs stay away once a newcomer is there: longer than the entry of a worker stays, for which one
 * that saw the outage takes nothing over, and less than the longest pause between two tries to reconnect.
 */
const LATE_MS = 8_000

const newcomer: Trial = {
  name: "newcomer",
  promise: "a worker that starts in or after a long outage leaves what runs to the workers that live",
  boards: ["sqlite", ...BROKERS],
  leaseMs: 6_000,
  act: (board, { rounds }) => ({
    workers: 1,
    trial: async (scene) => {
      for (let round = 0; round < rounds; round++) {
        const away = AWAY_MS * (1 + (round % 3) / 2)
        await scene.begin(plansOf(8, { kind: "plain", workMs: away + 2 * LATE_MS, runsOnce: true }))
        const back = blackout(scene, board, away)
        await sleep(away - EARLY_MS)
        // The workers that run the jobs are late to reconnect. One of the others starts in the outage, one afterwards.
        const thaw = scene.crew.freeze()
        await Promise.all([back, scene.crew.hire()])
        const afterwards = scene.crew.hire()
        await sleep(LATE_MS)
        thaw()
        await afterwards
        await scene.submit(company())
      }
    },
  }),
}

const journal: Trial = {
  name: "journal",
  promise: "no step that is complete runs again after an outage",
  boards: ["sqlite", ...BROKERS],
  leaseMs: 30_000,
  act: (board, { rounds }) => ({
    workers: 2,
    trial: async (scene) => {
      for (let round = 0; round < rounds; round++) {
        await scene.begin(plansOf(8, { kind: "steps", steps: 5, workMs: 800, runsOnce: true }))
        // A write to a file that is locked waits for five seconds.
        await blackout(scene, board, board.outage === undefined ? 7_000 : 4_000)
        await scene.submit(company())
      }
    },
  }),
}

/** Seconds after which a job expires that has not begun. On a busy machine one may. */
const EXPIRES = 2
/** Shortest and longest drop of the network, in milliseconds. */
const DROPS = { min: 150, max: 6_000 }

const drops: Trial = {
  name: "drops",
  promise: "a job that has begun does not expire while its worker is cut off",
  boards: ["nats", "postgres", "redis"],
  leaseMs: 30_000,
  act: (_, { rounds }) => ({
    workers: 2,
    wired: true,
    trial: async (scene) => {
      for (let round = 0; round < 3 * rounds; round++) {
        const ms = round % 3 === 0 ? DROPS.max : DROPS.min + Math.random() ** 2 * (DROPS.max - DROPS.min)
        const urgent = [100, 300, 1_000, 3_000].flatMap((workMs) =>
          plansOf(1, { kind: "plain", workMs, expires: EXPIRES, mayExpire: true }),
        )
        await scene.submit(urgent)
        // Most drops come between the start of a handler and the moment at which the start is stored.
        if (round % 3 === 2) await sleep(Math.random() * 150)
        else await scene.running(urgent, EXPIRES * 1_000).catch(() => undefined)
        scene.noteOutage()
        await (round % 2 === 0 ? scene.wire?.cut(ms) : scene.wire?.freeze(ms))
        // A caller that looks at a job before its worker is back must not find it expired.
        await Promise.all(urgent.map(({ id }) => found(scene.client, id)))
        const after = company()
        await scene.submit(after)
        await scene.running(after)
      }
    },
  }),
}

const HOUR = 3_600
/** Times of a second at which jobs are submitted after the clock was set. */
const AFTER_CLOCK = 6

const clock: Trial = {
  name: "clock",
  promise: "a clock that is set by an hour, back or forward, moves no due time and no expiry",
  boards: ["sqlite", ...BROKERS],
  setsClock: true,
  leaseMs: 2_000,
  act: (board, { rounds }) => ({
    workers: 2,
    restMs: 30_000,
    trial: async (scene) => {
      for (let round = 0; round < rounds; round++) {
        for (const offset of [-HOUR, 0, HOUR, 0]) {
          await scene.begin(plansOf(2, { kind: "plain", workMs: 3_000, runsOnce: true }))
          setClock(clockOf(board), offset)
          for (let times = 0; times < AFTER_CLOCK; times++) {
            await scene.submit([
              ...company(),
              ...plansOf(1, { kind: "plain", expires: 30 }),
              ...plansOf(1, { kind: "plain", delay: 1 }),
            ])
            await sleep(500)
          }
        }
      }
    },
  }),
}

const namespaces: Trial = {
  name: "namespaces",
  promise: "workers with one host name, each in a PID namespace, leave one another alone",
  boards: ["sqlite", ...BROKERS],
  leaseMs: 2_000,
  act: (_, { kills }) => ({
    workers: 3,
    jobs: 50 * kills,
    kills,
    // The workers share the name of the machine, and each has process id 1.
    prefix: ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"],
  }),
}

const DOOMED = "doomed"

const deletion: Trial = {
  name: "deletion",
  promise: "no job of a queue runs once its deletion has begun",
  boards: ["sqlite", ...BROKERS],
  leaseMs: 30_000,
  act: (_, { doomed }) => ({
    workers: 2,
    restMs: 300_000,
    trial: async ({ client, crew, submit }) => {
      await crew.hire(DOOMED)
      await client.pause(DOOMED)
      for (let left = doomed; left > 0; left -= 10_000)
        await submit(plansOf(Math.min(left, 10_000), { kind: "doomed", queue: DOOMED }))
      await submit(company())
      for (;;) {
        const { partial } = await client.deleteQueue(DOOMED, { budget: "5s" })
        if (partial === undefined) return
      }
    },
  }),
}

export const trials: ReadonlyArray<Trial> = [newcomer, journal, drops, clock, namespaces, deletion]

/** What a trial needs of its board. */
type Place = Pick<SharedBoard, "url" | "folder" | "blackout" | "outage">

/** Runs a trial in this process. */
export const runHere = async (
  { act, leaseMs }: Trial,
  board: Place,
  size: Size,
  more: Partial<ChaosOptions> = {},
): Promise<Report> => {
  const url = board.url(leaseMs / 1_000)
  return check(await runChaos({ url, folder: board.folder, leaseMs, jobs: 0, kills: 0, ...act(board, size), ...more }))
}

/** The file of the clock that a trial sets. */
const clockOf = ({ folder }: Place): string => `${folder}/clock`

const PROCESS = fileURLToPath(new URL("trial-process.ts", import.meta.url))

/** Runs a trial, in a process that lives by its clock if need be. */
export const runTrial = async (trial: Trial, board: SharedBoard, size: Size): Promise<Report> => {
  if (!trial.setsClock) return runHere(trial, board, size)
  setClock(clockOf(board), 0)
  const env = await livingBy(clockOf(board))
  // A broker has its own clock, and what a client submits is by the client's.
  if (board.outage !== undefined) return runHere(trial, board, size, { env })
  const args = [trial.name, board.url(trial.leaseMs / 1_000), board.folder, JSON.stringify(size)]
  await using child = spawnScript(PROCESS, args, { env })
  const [, report = ""] = await child.waitForLine(/^report (.*)$/, MAX_MS)
  return JSON.parse(report)
}

/** Longest time that a trial may take in a process of its own, in milliseconds. */
const MAX_MS = 900_000
