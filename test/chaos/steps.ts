/**
 * Deaths in durable steps, with real processes: a worker is killed before and after each of its writes, or stands still
 * there until another one has its job. Each end must be that of a run without a death.
 */
import { randomUUID } from "node:crypto"
import { writeFileSync } from "node:fs"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { type Client, connect } from "callboard"
import { inLanes } from "../../runtime/async/timers.ts"
import { isTerminal } from "../../runtime/protocol/state.ts"
import { fold } from "../../runtime/steps/fold.ts"
import { journalPrefix } from "../../runtime/steps/page.ts"
import { readJournal } from "../../runtime/steps/pages.ts"
import type { SharedBoard } from "../e2e/boards.ts"
import { DEADLINE, freeze, linesOf } from "../e2e/processes.ts"
import { bundled } from "../support/servers/bundle.ts"
import { eventually, type Spawned, spawnScript } from "../support/servers/process.ts"
import { type Begun, problemsOf, stepFlows } from "./step-flows.ts"
import type { StepInput, StepWorkerOptions } from "./step-worker.ts"

export interface StepDeaths {
  readonly flows?: ReadonlyArray<string>
  /** Only each of so many points. Defaults to 1: all. */
  readonly every?: number
  /** The program of the workers. Defaults to a build without a fault. */
  readonly program?: string
  /** Ends with the first problem. */
  readonly untilProblem?: boolean
}

/** What became of a worker at a point: it was killed, or stood still until another one was in a step, or had ended. */
const WAYS = ["killed before", "killed after", "frozen before, in a step", "frozen before, to the end"] as const
type Way = (typeof WAYS)[number]

const WORKER = fileURLToPath(new URL("step-worker.ts", import.meta.url))
/** Points that are tried at the same time. Most of their time they wait for leases. */
const LANES = 5
/** Seconds. Long enough for a busy machine: what a worker that lives loses is no fault of its steps. */
const LEASE = 3
const RESCUER = "rescuer"

export const runStepDeaths = async (
  board: SharedBoard,
  { flows = Object.keys(stepFlows), every = 1, program = bundled(WORKER), untilProblem = false }: StepDeaths = {},
): Promise<{ readonly points: number; readonly problems: ReadonlyArray<string> }> => {
  const client = board.keep(await connect(board.url(LEASE)))
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
  // In a run that makes fewer writes than another one nobody dies.
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
      // What it would do, it does now.
      await sleep(500)
      if (JSON.stringify(await entries()) !== before) problems.push("the frozen worker wrote its journal")
      if (ofVictim() !== said) problems.push("the frozen worker began a step")
      writeFileSync(files.gate, "")
    }
  }
  const { state } = await outcome
  const { transitions } = await job.find()
  if (transitions.filter((each) => isTerminal(each.state)).length !== 1) problems.push("it ended twice")
  if (death === undefined) await sleep(500)
  problems.push(...problemsOf(stepFlows[flow] ?? never(flow), { state, begun: begun(), victim: victim.pid, stored }))
  const writes = victim.stdout.split("\n").filter((line) => line.startsWith("write ")).length
  await victim.end()
  const log = begun().map(({ what, pid }) => (pid === victim.pid ? what : `${what}'`))
  return { writes, problems: problems.map((problem) => `${problem} (${log.join(" ")})`) }
}

const storedIn = (entries: Parameters<typeof fold>[0]): Set<string> =>
  new Set([...fold(entries).steps.values()].map(({ name, state }) => (state === "reverted" ? `-${name}` : name)))

const never = (flow: string): never => {
  throw new Error(`there is no flow ${flow}`)
}
