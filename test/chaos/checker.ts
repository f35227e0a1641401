/**
 * Checks the history of a chaos run, like Jepsen's queue checker: every accepted job must have exactly one outcome per run,
 * and all follow-ups of it. A run in which no job succeeded proves nothing, and fails.
 */
import type { JobView } from "callboard"
import type { Execution, History, Plan } from "./history.ts"

export interface Report {
  readonly accepted: number
  readonly succeeded: number
  readonly executions: number
  readonly kills: number
  readonly outages: number
  readonly problems: Readonly<Record<Problem, ReadonlyArray<string>>>
  readonly ok: boolean
}

export type Problem =
  /** The job was accepted, and has no record. */
  | "lost"
  /** The job was accepted, and has not ended. */
  | "stuck"
  /** The job has another outcome than planned. */
  | "wrong"
  /** A run of the job had more than one outcome. */
  | "changed"
  /** A follow-up of the job was not published. */
  | "missing"
  /** A follow-up of the job was published more than once. */
  | "doubled"
  /** The job started before a job that it waits for had ended. */
  | "early"
  /** The handler ran more often than kills, freezes and outages explain. */
  | "repeated"
  /** A worker has fewer free slots than at its start, although no job is left. */
  | "leaked"
  /** A worker ended although nothing ended it. */
  | "ended"
  /** No job succeeded. */
  | "vacuous"

const TERMINAL = new Set(["succeeded", "failed", "cancelled", "expired"])

export const check = (history: History): Report => {
  const problems: Record<Problem, Array<string>> = {
    lost: [],
    stuck: [],
    wrong: [],
    changed: [],
    missing: [],
    doubled: [],
    early: [],
    repeated: [],
    leaked: [...history.leaked],
    ended: [...history.ended],
    vacuous: [],
  }
  let succeeded = 0
  for (const plan of history.plans) {
    if (!history.accepted.has(plan.id)) continue
    const view = history.final.get(plan.id)
    if (view === undefined) problems.lost.push(plan.id)
    else if (!TERMINAL.has(view.state)) problems.stuck.push(`${plan.id} is ${view.state}`)
    else if (!isExpected(plan, view, history))
      problems.wrong.push(`${plan.id} (${plan.kind}) ${view.state}: ${view.error?.message ?? ""}`)
    else if (view.state === "succeeded") succeeded++
    checkFollowUps(plan, history, problems)
    checkOrder(plan, history, problems.early)
  }
  checkOutcomes(history, problems)
  checkSingleRuns(history, problems)
  const repeated = repetitions(history)
  const bound = (history.kills + history.outages * history.workers) * history.inFlight
  if (repeated > bound)
    problems.repeated.push(`${repeated} repeated runs, and kills, freezes and outages explain ${bound}`)
  if (succeeded === 0) problems.vacuous.push("no job succeeded")
  return {
    accepted: history.accepted.size,
    succeeded,
    executions: history.executions.length,
    kills: history.kills,
    outages: history.outages,
    problems,
    ok: Object.values(problems).every((list) => list.length === 0),
  }
}

const isExpected = ({ id, kind, mayExpire }: Plan, { state, error }: JobView, { executions }: History): boolean => {
  const ran = () => executions.some((execution) => execution.id === id)
  if (kind === "doomed") return state === "cancelled" && !ran()
  if (mayExpire && state === "expired") return !ran()
  if (kind === "once" && state === "failed") return error?.reason === "worker-lost"
  if (kind === "block" || kind === "deaf") return state === "failed" && error?.reason === "timeout"
  return state === (kind === "errback" || kind === "poison" ? "failed" : "succeeded")
}

const checkFollowUps = (plan: Plan, history: History, problems: Record<Problem, Array<string>>): void => {
  const followUps = history.followUps.get(plan.id) ?? []
  if (followUps.length < plan.followUps)
    problems.missing.push(`${plan.id} (${plan.kind}) has ${followUps.length} of ${plan.followUps} follow-ups`)
  if (followUps.length > plan.followUps)
    problems.doubled.push(`${plan.id} (${plan.kind}) has ${followUps.length} instead of ${plan.followUps} follow-ups`)
  for (const followUp of followUps) {
    if (followUp.state !== "succeeded")
      problems.stuck.push(`${followUp.id}, which follows ${plan.id}, is ${followUp.state}`)
  }
}

/** Whether the last attempt, the one in the record, began after the parents had ended. */
const checkOrder = ({ id, after = [] }: Plan, { final }: History, early: Array<string>): void => {
  const started = final.get(id)?.times.started
  if (started === undefined) return
  for (const parent of after) {
    const ended = final.get(parent)?.times.ended
    if (ended === undefined || ended > started)
      early.push(`${id} started at ${started}, and ${parent} ended at ${ended}`)
  }
}

const checkOutcomes = (history: History, problems: Record<Problem, Array<string>>): void => {
  const ends = new Map<string, string>()
  for (const { id, run, state, fence } of history.outcomes) {
    const key = `${id}/${run}`
    const end = `${state} by ${fence}`
    const before = ends.get(key)
    if (before !== undefined && before !== end) problems.changed.push(`${key}: ${before}, then ${end}`)
    ends.set(key, end)
  }
}

/** How often each attempt ran, and each step of any attempt. */
const runsOf = (executions: ReadonlyArray<Execution>): ReadonlyMap<string, number> => {
  const runs = new Map<string, number>()
  for (const { id, retries, step } of executions) {
    const key = step === undefined ? `${id}, attempt ${retries + 1}` : `${id}, step ${step}`
    runs.set(key, (runs.get(key) ?? 0) + 1)
  }
  return runs
}

/** Number of runs that repeat an attempt or a step. Without kills and outages each runs once. */
const repetitions = ({ executions }: History): number =>
  [...runsOf(executions).values()].reduce((sum, count) => sum + count - 1, 0)

const checkSingleRuns = ({ plans, executions }: History, { repeated }: Record<Problem, Array<string>>): void => {
  const once = new Set(plans.flatMap(({ id, runsOnce }) => (runsOnce ? [id] : [])))
  for (const [what, count] of runsOf(executions.filter(({ id }) => once.has(id)))) {
    if (count > 1) repeated.push(`${what}, ran ${count} times, and its worker lived`)
  }
}

/** The report for people. */
export const describe = (report: Report): string => {
  const lines = [
    `${report.accepted} accepted, ${report.succeeded} succeeded, ${report.executions} runs, ${report.kills} kills and freezes, ${report.outages} outages`,
  ]
  for (const [problem, list] of Object.entries(report.problems)) {
    if (list.length > 0) lines.push(`  ${problem}: ${list.length}, for instance ${list.slice(0, 3).join("; ")}`)
  }
  if (report.ok) lines.push("  lost 0, stuck 0, changed 0, missing 0, doubled 0, early 0, leaked 0, ended 0")
  return lines.join("\n")
}
