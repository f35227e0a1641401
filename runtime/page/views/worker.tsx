import type { JSX } from "preact"
import type { RunningJob, WorkerView } from "../../cluster/directory.ts"
import { useLoad } from "../load.ts"
import { busyOf } from "../numbers.ts"
import { Empty, Note, Panel, Part } from "../parts/basic.tsx"
import { Meter } from "../parts/chart.tsx"
import { Glyph } from "../parts/icon.tsx"
import { PauseToggle } from "../parts/notice.tsx"
import { Cell, JobCell, num, Row, Table } from "../parts/table.tsx"
import { Moment } from "../parts/time.tsx"
import { Crumb, Head, View } from "../parts/view.tsx"
import { href } from "../router.ts"
import { useStable } from "../stable.ts"
import { get, now } from "../state.ts"
import { bytes, duration, percent, roughly, short, whole } from "../times.ts"

export interface WorkerList {
  readonly workers: ReadonlyArray<WorkerView>
}

export const loadWorkers = (signal: AbortSignal): Promise<WorkerList> =>
  get<WorkerList>("/v1/workers", { lost: "15m" }, signal)

export const isLost = ({ lost }: WorkerView): boolean => lost !== undefined && !lost.goodbye

/** Age of a moment in seconds. */
export const since = (at: string): number => Math.max(0, (now.value - Date.parse(at)) / 1000)

/** Seconds of event loop lag above which jobs suffer. */
export const LATE = 0.03

/** Share of its time limit above which a job is near its end. */
export const NEAR = 0.8

/** Share of its time limit that a job has used; `undefined` where it has no limit. */
export const usedOf = ({ startedAt, deadline }: RunningJob): number | undefined => {
  if (deadline === undefined) return undefined
  const [from, to] = [Date.parse(startedAt), Date.parse(deadline)]
  return to <= from ? 1 : Math.min(1, Math.max(0, (now.value - from) / (to - from)))
}

/** The problems of a worker, in words. */
export const noteOf = (worker: WorkerView): readonly [words: string, kind: string] | undefined => {
  const { lost, unhealthy = [], loopLag = 0, state, blocked, jobs } = worker
  if (lost !== undefined) {
    const gone = `last heard ${roughly(since(lost.lastSeen))} ago`
    return [lost.goodbye ? `stopped, ${gone}` : `lost, ${gone}`, lost.goodbye ? "" : "bad"]
  }
  if (blocked !== undefined) {
    const job = jobs?.find(({ id }) => id === blocked.job)
    const by = job === undefined ? "a handler" : `${job.name} (${job.id})`
    return [`blocked for ${duration(since(blocked.since))} by ${by}: nothing else runs until it yields`, "bad"]
  }
  const [first] = unhealthy
  if (first !== undefined) return [`actor ${first.actor} is ${first.condition}: ${first.reason}`, "bad"]
  if (state === "stuck") return ["all its handlers keep running after their jobs have ended", "bad"]
  if (loopLag > LATE) return [`its event loop is ${duration(loopLag)} late`, "warnc"]
  if (state === "stopping") return ["finishing its jobs, taking no more", ""]
  return undefined
}

export const StateSign = ({ worker }: { readonly worker: WorkerView }): JSX.Element => {
  if (isLost(worker)) return <Glyph name="failed" label="Lost" />
  if (worker.lost !== undefined || worker.state === "stopping") return <Glyph name="cancelled" label="Stopped" />
  if (worker.state === "suspended") return <Glyph name="cancelled" label="Suspended" />
  if (worker.blocked !== undefined) return <Glyph name="warn" label="Blocked" />
  if (worker.state === "stuck") return <Glyph name="warn" label="Stuck" />
  return <Glyph name="succeeded" label="Alive" />
}

export const versionOf = ({ appVersion, version }: WorkerView): string => appVersion ?? version

export const SuspendButton = ({ worker: { name, state } }: { readonly worker: WorkerView }): JSX.Element => (
  <PauseToggle
    name={name}
    isOff={state === "suspended"}
    verbs={["Resume", "Suspend"]}
    titles={[`Resume ${name}`, `Suspend ${name}`]}
    command={(verb) => ({ method: "POST", path: `/v1/workers/${verb}`, query: { worker: name } })}
  />
)

/** A running job and its worker. */
export interface OnWorker {
  readonly job: RunningJob
  readonly worker: string
}

export const RunningTable = ({ jobs }: { readonly jobs: ReadonlyArray<OnWorker> }): JSX.Element => {
  const rows = useStable("running", jobs, ({ job }) => job.id)
  if (rows.length === 0) return <Empty title="No running jobs" />
  return (
    <Table
      caption="Running jobs, longest first"
      columns={["Job", "Worker", "Queue", num("Attempt"), num("Running for"), "Time limit used"]}
    >
      {rows.map(({ job, worker }) => {
        const used = usedOf(job)
        return (
          <Row key={job.id}>
            <JobCell id={job.id} name={job.name} />
            <Cell class="mid word" label="on">
              {worker}
            </Cell>
            <Cell class="mid" label="queue">
              {job.queue}
            </Cell>
            <Cell class="num mid" label="attempt">
              {whole(job.attempt)}
            </Cell>
            <Cell class="num" label="">
              {duration(since(job.startedAt))}
            </Cell>
            <Cell label="">
              {used === undefined ? (
                <span class="dim">none</span>
              ) : (
                <span class="row">
                  <Meter class="s" parts={[[used, used >= NEAR ? "f-fail" : "f-run"]]} />
                  <span class="small mid">{percent(used)}</span>
                </span>
              )}
            </Cell>
          </Row>
        )
      })}
    </Table>
  )
}

export const WorkerOf = ({ id: name }: { readonly id: string }): JSX.Element => {
  const workers = useLoad("workers", loadWorkers, { every: 2 })
  return (
    <View title={name} crumb={<Crumb to="workers" title="Workers" name={name} />}>
      <div class="stackv">
        <Part of={workers}>
          {(found) => {
            const named = found.workers.filter((each) => each.name === name)
            const worker = named.find(({ lost }) => lost === undefined) ?? named[0]
            if (worker === undefined) {
              return (
                <>
                  <h1>{name}</h1>
                  <Empty title="No worker with this name is running">
                    <p>
                      It has not reported for six seconds, or it has stopped. Other workers take over its jobs when
                      their leases expire.
                    </p>
                  </Empty>
                </>
              )
            }
            const note = noteOf(worker)
            return (
              <>
                <Head
                  title={
                    <>
                      <StateSign worker={worker} /> {name}
                    </>
                  }
                  tools={worker.lost === undefined && <SuspendButton worker={worker} />}
                >
                  <span>{worker.state}</span>
                  <span>
                    {worker.host}, process {worker.pid}
                  </span>
                  <span>version {versionOf(worker)}</span>
                  <span>
                    since <Moment at={worker.startedAt} as="clock" />
                  </span>
                  <span>
                    <b>{whole(worker.processed)}</b> done, <b>{whole(worker.failed)}</b> failed
                  </span>
                  {worker.perMinute !== undefined && <span>{short(worker.perMinute)}/min</span>}
                  {worker.rss !== undefined && <span>{bytes(worker.rss)} of memory</span>}
                  {worker.loopLag !== undefined && <span>event loop {duration(worker.loopLag)} late</span>}
                </Head>
                {note !== undefined && (
                  <Note kind={note[1] === "bad" ? "bad" : "warn"} icon="errors">
                    {note[0]}
                  </Note>
                )}
                <div class="two wide">
                  <Panel title="Runs now" hint={`${whole(busyOf(worker))} of ${whole(worker.concurrency)}`} hold>
                    <RunningTable jobs={(worker.jobs ?? []).map((job) => ({ job, worker: name }))} />
                  </Panel>
                  <Panel title="Serves">
                    <div class="body stackv">
                      <p class="small">
                        <span class="dim">Queues:</span>{" "}
                        {worker.queues.map((queue, at) => (
                          <span key={queue}>
                            {at > 0 && ", "}
                            <a class="link" href={href("queue", queue)}>
                              {queue}
                            </a>
                          </span>
                        ))}
                      </p>
                      <p class="small">
                        <span class="dim">Actors:</span> {worker.actors.join(", ")}
                      </p>
                    </div>
                  </Panel>
                </div>
              </>
            )
          }}
        </Part>
      </div>
    </View>
  )
}
