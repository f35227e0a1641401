/**
 * The long form: `npm run chaos -- [sqlite] [nats] [postgres] [--jobs 20000] [--kills 50] [--restarts 10] [--cuts 10]
 * [--outages 8] [--stuck 5] [--concurrency 16]`. Exits 1 when the checker finds a problem.
 *
 * - `npm run chaos -- amqp`: as above, on RabbitMQ with records in a file of sqlite; it runs only when it is named.
 * - `npm run chaos -- nats3`: a cluster of three nats-servers, of which one at a time is killed, frozen or cut off from the
 *   others, for 5 to 40 seconds; it runs only when it is named.
 * - `npm run chaos -- rollout [sqlite] [nats] [postgres] [--seconds 600]`: deploys two versions of a service in turn, and
 *   exits 1 when a job does not run once and to its end.
 * - `npm run chaos -- ledger [sqlite] [nats] [--jobs 100000]`: future jobs and schedules, with workers that die at every fiftieth due
 *   time, restarts of the broker, and an outage longer than it knows publish keys; exits 1 unless each runs once, and in time.
 * - `npm run chaos -- steps [sqlite] [nats] [postgres]`: kills and freezes a worker at every write of flows with durable steps, and
 *   exits 1 when one does not end as without; `-- steps-faults [nats] [no-open …]`: broken builds of steps, on sqlite unless said.
 * - `npm run chaos -- waits [sqlite …] [--jobs 300] [--kills 50]`: kills workers while jobs sleep, wait for signals and call other jobs;
 *   exits 1 when a job does not end once, with what it was sent.
 * - `npm run chaos -- trials [newcomer …] [sqlite …]`: what broke promises before, on each transport that it applies to; see `trials.ts`.
 * - `npm run chaos -- faults [no-fence …]`: broken builds, all or these; exits 1 when the checker does not catch each of them.
 */
import { parseArgs } from "node:util"
import { allBoards, type BoardKind, everyBoard, sharedBoards } from "../e2e/boards.ts"
import { check, describe, type Problem, type Report } from "./checker.ts"
import { natsCluster } from "./cluster.ts"
import { FAULTS, type Fault } from "./faulty.ts"
import { describeLedger, runLedger } from "./ledger.ts"
import { runRollout } from "./rollout.ts"
import { runChaos } from "./run.ts"
import { mutantWorker, stepMutants } from "./step-mutants.ts"
import { runStepDeaths } from "./steps.ts"
import { LONG, runTrial, trials } from "./trials.ts"
import { runWaitDeaths } from "./waits.ts"

const { values, positionals } = parseArgs({
  args: process.argv.slice(2),
  allowPositionals: true,
  options: {
    jobs: { type: "string" },
    kills: { type: "string", default: "50" },
    restarts: { type: "string", default: "10" },
    cuts: { type: "string", default: "10" },
    outages: { type: "string", default: "8" },
    stuck: { type: "string", default: "5" },
    concurrency: { type: "string" },
    seconds: { type: "string", default: "600" },
  },
})

/** So many handlers that a worker sends its next pull before the tasks of the last one begin. */
const MANY_HANDLERS = 100

const longRuns = async (): Promise<boolean> => {
  let ok = true
  for (const kind of wanted([...everyBoard, natsCluster], allBoards)) {
    const isCluster = kind === natsCluster
    await using board = await kind.open()
    const began = Date.now()
    const history = await runChaos({
      url: board.url(2),
      folder: board.folder,
      leaseMs: 2_000,
      jobs: Number(values.jobs ?? 20_000),
      kills: Number(values.kills),
      outages: Number(values.outages),
      stuck: Number(values.stuck),
      ...(board.outage === undefined ? {} : { outage: board.outage }),
      ...(isCluster ? { outageMs: [5_000, 40_000] } : {}),
      ...(board.restartBroker === undefined
        ? {}
        : {
            restartBroker: board.restartBroker,
            brokerRestarts: Number(values.restarts),
            cuts: isCluster ? 0 : Number(values.cuts),
          }),
      concurrency: Number(values.concurrency ?? (kind.name === "nats" ? MANY_HANDLERS : 16)),
      restMs: 300_000,
    })
    const report = check(history)
    ok &&= report.ok
    console.log(`${kind.name}, ${Math.round((Date.now() - began) / 1000)} s: ${describe(report)}`)
  }
  return ok
}

const MODES = ["rollout", "faults", "ledger", "steps", "steps-faults", "trials", "waits"] as const
type Mode = (typeof MODES)[number]

const namesOf = (all: ReadonlyArray<{ readonly name: string }>): ReadonlyArray<string> => all.map(({ name }) => name)

const named = positionals.filter((word) => !MODES.some((mode) => mode === word))

/** The boards that are named on the command line, or those that are run without a name. */
const wanted = (all: ReadonlyArray<BoardKind>, unnamed: ReadonlyArray<BoardKind> = all): ReadonlyArray<BoardKind> =>
  named.length === 0 ? unnamed : all.filter(({ name }) => named.includes(name))

const rollouts = async (): Promise<boolean> => {
  let ok = true
  for (const kind of wanted(allBoards)) {
    await using board = await kind.open()
    const { submitted, replaced, problems } = await runRollout({
      url: board.url(10),
      seconds: Number(values.seconds),
      leastTasks: 1,
      leastReplaced: 1,
      tasksPerSecond: 20,
      replaceEveryMs: 2_000,
      restMs: 120_000,
    })
    ok &&= problems.length === 0
    console.log(`${kind.name}: ${submitted} tasks, ${replaced} workers replaced, ${problems.length} problems`)
    for (const problem of problems.slice(0, 20)) console.log(`  ${problem}`)
  }
  return ok
}

/** Length of the outage of a ledger, in milliseconds: longer than the broker knows publish keys, which is two minutes. */
const LEDGER_OUTAGE_MS = 130_000
const LEDGER_LATE_MS = LEDGER_OUTAGE_MS + 60_000

const ledgers = async (): Promise<boolean> => {
  let ok = true
  for (const kind of wanted(sharedBoards)) {
    await using board = await kind.open()
    const report = await runLedger(board, {
      jobs: Number(values.jobs ?? 100_000),
      schedules: 10,
      seconds: 240,
      workers: 3,
      lease: 5,
      oneOf: 50,
      kills: 5,
      restarts: board.restartBroker === undefined ? 0 : 3,
      outageMs: board.outage === undefined ? 0 : LEDGER_OUTAGE_MS,
      restMs: 300_000,
      say: (line) => console.log(`${kind.name}: ${line}`),
    })
    const { missing, early, doubled, late } = report
    ok &&= missing.length + early.length + doubled.length === 0 && late.last < LEDGER_LATE_MS
    console.log(`${kind.name}: ${describeLedger(report)}`)
  }
  return ok
}

const deathsInSteps = async (): Promise<boolean> => {
  let ok = true
  for (const kind of wanted(allBoards)) {
    const began = Date.now()
    await using board = await kind.open()
    const { points, problems } = await runStepDeaths(board)
    ok &&= problems.length === 0
    const seconds = Math.round((Date.now() - began) / 1_000)
    console.log(`${kind.name}: ${points} points, ${problems.length} problems, ${seconds} s`)
    for (const problem of problems.slice(0, 20)) console.log(`  ${problem}`)
  }
  return ok
}

const deathsInWaits = async (): Promise<boolean> => {
  let ok = true
  for (const kind of wanted([...everyBoard, natsCluster])) {
    const began = Date.now()
    await using board = await kind.open()
    const counts = { jobs: Number(values.jobs ?? 300), kills: Number(values.kills) }
    const { sent, killed, problems } = await runWaitDeaths(board, counts)
    ok &&= problems.length === 0
    const seconds = Math.round((Date.now() - began) / 1_000)
    console.log(
      `${kind.name}: ${counts.jobs} jobs, ${sent} signals, ${killed} deaths, ${problems.length} problems, ${seconds} s`,
    )
    for (const problem of problems.slice(0, 20)) console.log(`  ${problem}`)
  }
  return ok
}

const brokenSteps = async (): Promise<boolean> => {
  let ok = true
  const kinds = allBoards.filter(({ name }) => named.includes(name))
  const chosen = stepMutants.filter(({ name }) => named.includes(name))
  for (const kind of kinds.length > 0 ? kinds : sharedBoards.slice(0, 1)) {
    for (const mutant of chosen.length > 0 ? chosen : stepMutants) {
      await using board = await kind.open()
      const program = mutantWorker(mutant)
      const { points, problems } = await runStepDeaths(board, { flows: [mutant.flow], program, untilProblem: true })
      // What fails without a death as well is for other tests to find.
      ok &&= problems.length > 0 && points > 0
      console.log(`${kind.name}, ${mutant.name}: ${problems[0] ?? "not caught"} (${points} points)`)
    }
  }
  return ok
}

const allTrials = async (): Promise<boolean> => {
  let ok = true
  const chosen = trials.filter(({ name }) => named.includes(name))
  const kinds = [...everyBoard, natsCluster].filter(({ name }) => named.includes(name))
  for (const trial of chosen.length > 0 ? chosen : trials) {
    for (const kind of kinds.length > 0 ? kinds : [...everyBoard, natsCluster]) {
      if (!trial.boards.includes(kind.name)) continue
      const began = Date.now()
      await using board = await kind.open()
      const report = await runTrial(trial, board, LONG)
      ok &&= report.ok
      console.log(`${trial.name} on ${kind.name}, ${Math.round((Date.now() - began) / 1_000)} s: ${describe(report)}`)
    }
  }
  return ok
}

/** The problems that a fault causes. A fault counts as caught when the checker reports any of its problems. */
const CATCHES: Readonly<Record<Fault, ReadonlyArray<Problem>>> = {
  "ack-first": ["lost", "stuck", "missing", "wrong"],
  // The next attempt of a job is a follow-up too. Without it the job stays scheduled for ever.
  "follow-ups-last": ["missing", "stuck"],
  "no-fence": ["changed", "doubled"],
  "no-edges": ["stuck"],
  "no-answer": ["leaked"],
  "suspects-together": ["wrong"],
  "no-stuck-watch": ["stuck"],
}

/** Runs per fault until it is caught. Strikes are random, so that one run may miss the moment that a fault needs. */
const TRIES = 3

const brokenBuilds = async (): Promise<boolean> => {
  let ok = true
  for (const fault of FAULTS.filter((each) => named.length === 0 || named.includes(each))) {
    let caught = false
    for (let tried = 0; tried < TRIES && !caught; tried++) {
      const report = await brokenRun(fault)
      caught = CATCHES[fault].some((problem) => report.problems[problem].length > 0)
      console.log(`${fault}: ${caught ? "caught" : `not caught: ${describe(report)}`}`)
    }
    ok &&= caught
  }
  return ok
}

const brokenRun = async (fault: Fault): Promise<Report> => {
  const [sqlite] = sharedBoards
  if (sqlite === undefined) throw new Error("there is no board")
  await using board = await sqlite.open()
  const history = await runChaos({
    url: board.url(1),
    folder: board.folder,
    leaseMs: 1_000,
    jobs: 800,
    // From five strikes on there is a rolling restart, which would wait for the deliveries that a leaking worker never ends.
    kills: fault === "no-answer" ? 4 : 8,
    restMs: fault === "suspects-together" ? 60_000 : 4_000,
    ...(fault === "no-stuck-watch" ? { jobs: 40, kills: 0, stuck: 2, restMs: 30_000 } : {}),
    ...(fault === "suspects-together" ? { jobs: 40, kills: 1, poison: 2, workers: 2 } : {}),
    fault,
  })
  return check(history)
}

/** What each mode runs, and the names that it knows. */
const modes: Readonly<Record<Mode, readonly [run: () => Promise<boolean>, names: ReadonlyArray<string>]>> = {
  faults: [brokenBuilds, FAULTS],
  rollout: [rollouts, namesOf(allBoards)],
  ledger: [ledgers, namesOf(sharedBoards)],
  steps: [deathsInSteps, namesOf(allBoards)],
  trials: [allTrials, namesOf([...everyBoard, natsCluster, ...trials])],
  waits: [deathsInWaits, namesOf([...everyBoard, natsCluster])],
  "steps-faults": [brokenSteps, namesOf([...allBoards, ...stepMutants])],
}
const mode = MODES.find((each) => positionals.includes(each))
const [run, known] = mode === undefined ? [longRuns, namesOf([...everyBoard, natsCluster])] : modes[mode]
const unknown = named.filter((name) => !known.includes(name))
if (unknown.length > 0) {
  console.error(`nothing is named ${unknown.join(", ")}; choose among: ${known.join(", ")}`)
  process.exit(2)
}
process.exit((await run()) ? 0 : 1)
