/**
 * Deaths in durable steps, with real processes: a worker is killed before and after each of its writes, or is frozen there until
 * another worker has its job. Each job must end as in a run without a death.
 */
import { randomUUID } from "node:crypto"
import { writeFileSync } from "node:fs"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import type { Client } from "callboard"
import { Schema } from "effect"
import { inLanes } from "../../runtime/async/timers.ts"
import { isTerminal } from "../../runtime/protocol/state.ts"
import { fold } from "../../runtime/steps/fold.ts"
import { journalPrefix } from "../../runtime/steps/page.ts"
import { readJournal } from "../../runtime/steps/pages.ts"
import type { SharedBoard } from "../e2e/boards.ts"
import { DEADLINE, freeze, linesOf } from "../e2e/processes.ts"
import { bundled } from "../support/servers/bundle.ts"
import { eventually, type Spawned, spawnScript } from "../support/servers/process.ts"
import { connectWhenUp } from "./connecting.ts"
import { type Begun, problemsOf, stepSessions } from "./step-flows.ts"
import type { StepInput, StepWorkerOptions } from "./step-worker.ts"

export interface StepDeaths {
  readonly flows?: ReadonlyArray<string>
  /** Tries only each `every`-th point. Defaults to 1: all points. */
  readonly every?: number
  /** The program of the workers. Defaults to a build without a fault. */
  readonly program?: string
  /** Tries no further point after the first problem. Defaults to false. */
  readonly untilProblem?: boolean
}

/** What happens to the worker at a write: it is killed, or frozen until another worker runs a step, or until the job has ended. */
const WAYS = ["killed before", "killed after", "frozen before, in a step", "frozen before, to the end"] as const
type Way = (typeof WAYS)[number]

const WORKER = fileURLToPath(new URL("step-worker.ts", import.meta.url))
/** Number of points that are tried at the same time: each spends most of its time waiting for a lease to lapse. */
const LANES = 5
/** Length of a lease in seconds: so long that a living worker on a busy machine loses none. */
const LEASE = 3
const RESCUER = "rescuer"

export const runStepDeaths = async (
  board: SharedBoard,
  { flows = Object.keys(stepSessions), every = 1, program = bundled(WORKER), untilProblem = false }: StepDeaths = {},
): Promise<{ readonly points: number; readonly problems: ReadonlyArray<string> }> => {
  const client = board.keep(await connectWhenUp(board.url(LEASE)))
  const start = async (options: StepWorkerOptions): Promise<Spawned> => {
    const worker = board.keep(spawnScript(program, [board.url(LEASE), JSON.stringify(options)]))
    await worker.waitForLine(/^ready/, DEADLINE)
    return worker
  }
  await start({ name: RESCUER, queue: "none" })
  const scene: Scene = { board, client, start }
  const problems: Array<string> = []
  let points = 0
  for (const flow of flows) {
    const whole = await endWith(scene, flow, undefined)
    problems.push(...whole.problems.map((problem) => `${flow}, without a death: ${problem}`))
    const all = Array.from({ length: whole.writes }, (_, at) => WAYS.map((way) => ({ at, way })))
    const chosen = all.flat().filter((_, nth) => nth % every === 0)
    await inLanes(LANES, chosen, async ({ at, way }) => {
      if (untilProblem && problems.length > 0) return
      points++
      const end = await endWith(scene, flow, { at, way }).catch((cause: unknown) => ({ problems: [String(cause)] }))
      problems.push(...end.problems.map((problem) => `${flow}, ${way} write ${at}: ${problem}`))
    })
  }
  return { points, problems }
}

interface Scene {
  readonly board: SharedBoard
  readonly client: Client
  start(options: StepWorkerOptions): Promise<Spawned>
}

const endWith = async ({ board, client, start }: Scene, flow: string, death: { at: number; way: Way } | undefined) => {
  const queue = randomUUID()
  const files = { ledger: `${board.folder}/${queue}`, gate: `${board.folder}/${queue}.gate` }
  const until = `${board.folder}/${queue}.go`
  const isFrozen = death?.way.startsWith("frozen") === true
  const waits = death?.way === "frozen before, in a step"
  if (!waits) writeFileSync(files.gate, "")
  const victim = await start({
    name: queue,
    queue,
    ...(death === undefined ? {} : { at: death.at, when: death.way === "killed after" ? "after" : "before" }),
    ...(isFrozen ? { until } : {}),
  })
  const input: StepInput = { flow, ...files }
  const job = await client.submit("flows.run", { queue, input })
  const outcome = job.outcome({ timeout: DEADLINE / 1_000 })
  const entries = async () => (await readJournal(client.connection.store, journalPrefix(job.id, 1))).entries
  const begun = (): ReadonlyArray<Begun> =>
    linesOf(files.ledger).map((line) => {
      const [what = "", pid = ""] = line.split(" ")
      return { what, pid: Number(pid) }
    })
  const ofVictim = () => begun().filter(({ pid }) => pid === victim.pid).length
  const problems: Array<string> = []
  let stored = new Set<string>()
  // The number of writes differs between runs. A run with fewer writes ends before its worker is struck.
  const strikes = isFrozen ? victim.waitForLine(/^waits/, DEADLINE) : victim.exited
  const isStruck = death !== undefined && (await Promise.race([strikes.then(() => true), outcome.then(() => false)]))
  if (isStruck) {
    if (isFrozen) await freeze(victim, client)
    stored = storedIn(await entries())
    await client.control("add-consumer", { queue }, { workers: [RESCUER], timeout: DEADLINE / 1_000 })
    const isInStep = () => begun().some(({ pid }) => pid !== victim.pid)
    if (waits) {
      const ended = outcome.then(() => true)
      await eventually(async () => isInStep() || (await Promise.race([ended, sleep(20, false)])), {
        deadline: DEADLINE,
      })
    } else await outcome
    if (isFrozen) {
      const [before, said] = [JSON.stringify(await entries()), ofVictim()]
      writeFileSync(until, "")
      victim.kill("SIGCONT")
      await victim.waitForLine(/^goes on/, DEADLINE)
      // The worker tries what it would still write for this job, and ends its delivery. In a step it waits at the gate first.
      if (waits) await sleep(500)
      else await isIdle(client, queue)
      if (JSON.stringify(await entries()) !== before) problems.push("the frozen worker wrote its journal")
      if (ofVictim() !== said) problems.push("the frozen worker began a step")
      writeFileSync(files.gate, "")
    }
  }
  const { state } = await outcome
  const { transitions } = await job.find()
  if (transitions.filter((each) => isTerminal(each.state)).length !== 1) problems.push("it ended twice")
  // The worker prints its last write after the job has ended, and has nothing in hand however it was frozen.
  if (death === undefined || isFrozen) await isIdle(client, queue)
  problems.push(...problemsOf(stepSessions[flow] ?? never(flow), { state, begun: begun(), victim: victim.pid, stored }))
  const writes = victim.stdout.split("\n").filter((line) => line.startsWith("write ")).length
  await victim.end()
  const log = begun().map(({ what, pid }) => (pid === victim.pid ? what : `${what}'`))
  return { writes, problems: problems.map((problem) => `${problem} (${log.join(" ")})`) }
}

/** Waits until a worker has ended all its deliveries. */
const isIdle = (client: Client, worker: string): Promise<unknown> =>
  eventually(
    async () => {
      const [reply] = await client.control("stats", {}, { workers: [worker], timeout: 2 }).catch(() => [])
      return hasDeliveries(reply?.value) && reply.value.inFlight === 0
    },
    { deadline: DEADLINE, every: 50, message: "the worker is idle" },
  )

const hasDeliveries = Schema.is(Schema.Struct({ inFlight: Schema.Int }))

const storedIn = (entries: Parameters<typeof fold>[0]): Set<string> =>
  new Set([...fold(entries).steps.values()].map(({ name, state }) => (state === "reverted" ? `-${name}` : name)))

const never = (flow: string): never => {
  throw new Error(`there is no flow ${flow}`)
}
