/** Workers: what their handlers do, how they are, and those that are gone. */
import { useSignal } from "@preact/signals"
import type { JSX } from "preact"
import { useLoad } from "../load.ts"
import { Decision, Empty, Note, Panel, Part, Segments } from "../parts/basic.tsx"
import { Meter } from "../parts/chart.tsx"
import { Glyph, Icon } from "../parts/icon.tsx"
import { decide } from "../parts/said.tsx"
import { ACTIONS, Cell, num, Row, Table } from "../parts/table.tsx"
import { Moment } from "../parts/time.tsx"
import { View } from "../parts/view.tsx"
import { href } from "../router.ts"
import type { RunningJob, Worker } from "../service.ts"
import { useStable } from "../stable.ts"
import { get, now } from "../state.ts"
import { bytes, duration, percent, roughly, short, whole } from "../times.ts"

interface WorkerList {
  readonly workers: ReadonlyArray<Worker>
}

const loadWorkers = (signal: AbortSignal): Promise<WorkerList> =>
  get<WorkerList>("/v1/workers", { lost: "15m" }, signal)

/** A worker that was started again has the name of the one that is gone. */
const keyOfWorker = ({ name, startedAt }: Worker): string => `${startedAt} ${name}`

const isLost = ({ lost }: Worker): boolean => lost !== undefined && !lost.goodbye

/** How long ago a moment was, in seconds. */
const since = (at: string): number => Math.max(0, (now.value - Date.parse(at)) / 1000)

/** Of an event loop that is later than this many seconds, jobs suffer. */
const LATE = 0.03

/** Shown one by one up to here; of more, the number alone. */
const MOST_SLOTS = 64

/** A handler near the end of its time limit. */
const NEAR = 0.8

/** How much of its time limit a job has used; `undefined` where it has none. */
const usedOf = ({ startedAt, deadline }: RunningJob): number | undefined => {
  if (deadline === undefined) return undefined
  const [from, to] = [Date.parse(startedAt), Date.parse(deadline)]
  return to <= from ? 1 : Math.min(1, Math.max(0, (now.value - from) / (to - from)))
}

const Slots = ({ worker }: { readonly worker: Worker }): JSX.Element => {
  const { concurrency, running, jobs = [] } = worker
  const words = `${whole(running.length)} of ${whole(concurrency)} handlers run`
  if (concurrency > MOST_SLOTS) return <span class="mid">{words}</span>
  return (
    <span class="slots" role="img" aria-label={words}>
      {Array.from({ length: concurrency }, (_, at) => {
        const job = jobs[at]
        const used = job === undefined ? undefined : usedOf(job)
        return <i key={at} class={at >= running.length ? "" : used !== undefined && used >= NEAR ? "h" : "r"} />
      })}
    </span>
  )
}

/** What is wrong with a worker, in words. */
const noteOf = (worker: Worker): readonly [words: string, kind: string] | undefined => {
  const { lost, unhealthy = [], loopLag = 0, state } = worker
  if (lost !== undefined) {
    const gone = `last heard ${roughly(since(lost.lastSeen))} ago`
    return [lost.goodbye ? `stopped, ${gone}` : `${gone}, no goodbye`, lost.goodbye ? "" : "bad"]
  }
  const [first] = unhealthy
  if (first !== undefined) return [`actor ${first.actor} is ${first.condition}: ${first.reason}`, "bad"]
  if (state === "stuck") return ["all of its handlers go on after their jobs were decided", "bad"]
  if (loopLag > LATE) return [`its event loop is ${duration(loopLag)} late`, "warnc"]
  if (state === "stopping") return ["finishes what it runs, and takes nothing more", ""]
  return undefined
}

const StateSign = ({ worker }: { readonly worker: Worker }): JSX.Element => {
  if (isLost(worker)) return <Glyph name="failed" label="Lost" />
  if (worker.lost !== undefined || worker.state === "stopping") return <Glyph name="cancelled" label="Stopped" />
  if (worker.state === "suspended") return <Glyph name="cancelled" label="Suspended" />
  if (worker.state === "stuck") return <Glyph name="warn" label="Stuck" />
  return <Glyph name="succeeded" label="Alive" />
}

const versionOf = ({ appVersion, version }: Worker): string => appVersion ?? version

const SuspendButton = ({ worker }: { readonly worker: Worker }): JSX.Element => {
  const isSuspended = worker.state === "suspended"
  const verb = isSuspended ? "resume" : "suspend"
  const command = { method: "POST", path: `/v1/workers/${verb}`, query: { worker: worker.name } }
  return (
    <Decision
      scope="operate"
      class="small"
      icon={isSuspended ? "play" : "pause"}
      command={command}
      title={isSuspended ? `Let ${worker.name} take tasks again` : `Let ${worker.name} take no more tasks`}
      onClick={() =>
        void decide(`${isSuspended ? "Resume" : "Suspend"} ${worker.name}`, command.method, command.path, command.query)
      }
    >
      {isSuspended ? "Resume" : "Suspend"}
    </Decision>
  )
}

interface WorkerRowProps {
  readonly worker: Worker
  /** Whether memory and lag are known. */
  readonly isMeasured: boolean
}

const WorkerRow = ({ worker, isMeasured }: WorkerRowProps): JSX.Element => {
  const note = noteOf(worker)
  return (
    <Row>
      <Cell class="wide">
        <span class="row">
          <StateSign worker={worker} />
          <a class="b" href={href("worker", worker.name)} data-row="">
            {worker.name}
          </a>
          {isLost(worker) && <span class="tag bad">lost</span>}
          {worker.state === "suspended" && <span class="tag">suspended</span>}
        </span>
        {note !== undefined && <span class={`sub ${note[1]}`}>{note[0]}</span>}
      </Cell>
      <Cell>
        <Slots worker={worker} />
      </Cell>
      <Cell class="mid small" label="">
        {worker.queues.join(", ")}
      </Cell>
      <Cell class="mono tiny mid" label="">
        {versionOf(worker)}
      </Cell>
      <Cell class="num" label="/min">
        {worker.perMinute === undefined ? "–" : short(worker.perMinute)}
      </Cell>
      <Cell class="num" label="done">
        {whole(worker.processed)}
      </Cell>
      <Cell class={`num ${worker.failed > 0 ? "" : "dim"}`} label="failed">
        {whole(worker.failed)}
      </Cell>
      {isMeasured && (
        <Cell class="num mid" label="memory">
          {worker.rss === undefined ? "–" : bytes(worker.rss)}
        </Cell>
      )}
      {isMeasured && (
        <Cell class={`num ${(worker.loopLag ?? 0) > LATE ? "warnc b" : "mid"}`} label="lag">
          {worker.loopLag === undefined ? "–" : duration(worker.loopLag)}
        </Cell>
      )}
      <Cell class="num mid" label="up">
        {roughly(since(worker.startedAt))}
      </Cell>
      <Cell class="act keep">{worker.lost === undefined && <SuspendButton worker={worker} />}</Cell>
    </Row>
  )
}

const ORDERS = {
  name: (worker: Worker) => worker.name,
  version: (worker: Worker) => `${versionOf(worker)} ${worker.name}`,
  queue: (worker: Worker) => `${worker.queues.join(", ")} ${worker.name}`,
} as const
type Order = keyof typeof ORDERS

const WorkerTable = ({
  workers,
  order,
}: {
  readonly workers: ReadonlyArray<Worker>
  readonly order: Order
}): JSX.Element => {
  const keyOf = ORDERS[order]
  const sorted = workers.toSorted((a, b) => keyOf(a).localeCompare(keyOf(b), "en", { numeric: true }))
  const isMeasured = workers.some(({ rss, loopLag }) => rss !== undefined || loopLag !== undefined)
  const rows = useStable(`workers ${order}`, sorted, keyOfWorker)
  return (
    <Table
      caption={`Workers by ${order}`}
      columns={[
        "Worker",
        "Handlers",
        "Queues",
        "Version",
        num("Per minute"),
        num("Done"),
        num("Failed"),
        ...(isMeasured ? [num("Memory"), num("Loop lag")] : []),
        num("Up"),
        ACTIONS,
      ]}
    >
      {rows.map((worker) => (
        <WorkerRow key={keyOfWorker(worker)} worker={worker} isMeasured={isMeasured} />
      ))}
    </Table>
  )
}

/** A job with the worker that runs it. */
interface OnWorker {
  readonly job: RunningJob
  readonly worker: string
}

/** How many of those that run longest are shown. */
const LONGEST = 10

const longestOf = (workers: ReadonlyArray<Worker>): ReadonlyArray<OnWorker> =>
  workers
    .flatMap(({ name, jobs = [], lost }) => (lost === undefined ? jobs.map((job) => ({ job, worker: name })) : []))
    .toSorted((a, b) => Date.parse(a.job.startedAt) - Date.parse(b.job.startedAt))
    .slice(0, LONGEST)

const RunningTable = ({ jobs }: { readonly jobs: ReadonlyArray<OnWorker> }): JSX.Element => {
  const rows = useStable("running", jobs, ({ job }) => job.id)
  if (rows.length === 0) return <Empty title="Nothing runs" />
  return (
    <Table
      caption="Jobs that run, the longest first"
      columns={["Job", "Worker", "Queue", num("Attempt"), num("Runs for"), "Of its time limit"]}
    >
      {rows.map(({ job, worker }) => {
        const used = usedOf(job)
        return (
          <Row key={job.id}>
            <Cell class="wide">
              <a class="b" href={href("job", job.id)} data-row="">
                {job.name}
              </a>{" "}
              <span class="id">{job.id.slice(-8)}</span>
            </Cell>
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

const Summary = ({ workers }: { readonly workers: ReadonlyArray<Worker> }): JSX.Element => {
  const alive = workers.filter(({ lost }) => lost === undefined)
  const lost = workers.filter(isLost)
  const busy = alive.reduce((sum, { running }) => sum + running.length, 0)
  const all = alive.reduce((sum, { concurrency }) => sum + concurrency, 0)
  const versions = Object.entries(Object.groupBy(alive, versionOf))
  return (
    <section class="flow plain" aria-label="Workers now">
      <div>
        <span class="dim small">Alive</span>
        <span class="v">{whole(alive.length)}</span>
        <span class={`d ${lost.length > 0 ? "bad" : ""}`}>
          {lost.length === 0 ? "none lost lately" : `${whole(lost.length)} lost in the last 15 minutes`}
        </span>
      </div>
      <div>
        <span class="dim small">Handlers busy</span>
        <span class="v">
          {whole(busy)}
          <span class="dim"> / {whole(all)}</span>
        </span>
        <span class="d">{all === 0 ? "" : percent(busy / all)}</span>
      </div>
      <div>
        <span class="dim small">Versions</span>
        <span class="v">{whole(versions.length)}</span>
        <span class="d clip">
          {versions
            .slice(0, 3)
            .map(([version, of = []]) => `${version} on ${whole(of.length)}`)
            .join(", ")}
        </span>
      </div>
    </section>
  )
}

export const Workers = (): JSX.Element => {
  const workers = useLoad("workers", loadWorkers, { every: 2 })
  const order = useSignal<Order>("name")
  return (
    <View title="Workers" count={workers.data === undefined ? undefined : String(workers.data.workers.length)}>
      <div class="stackv">
        <Part of={workers}>
          {(found) =>
            found.workers.length === 0 ? (
              <Empty title="No worker lives">
                <p>
                  What is posted waits until one does: <code>callboard worker</code> or <code>serve()</code> starts one.
                </p>
              </Empty>
            ) : (
              <>
                <Summary workers={found.workers} />
                <Panel
                  title="Workers"
                  tools={
                    <Segments<Order>
                      label="Order"
                      choices={[
                        ["name", "By name"],
                        ["version", "By version"],
                        ["queue", "By queue"],
                      ]}
                      value={order.value}
                      onChoose={(chosen) => {
                        order.value = chosen
                      }}
                    />
                  }
                  hold
                >
                  <WorkerTable workers={found.workers} order={order.value} />
                </Panel>
                <Panel title="Running longest" hold>
                  <RunningTable jobs={longestOf(found.workers)} />
                </Panel>
              </>
            )
          }
        </Part>
      </div>
    </View>
  )
}

export const WorkerOf = ({ id: name }: { readonly id: string }): JSX.Element => {
  const workers = useLoad("workers", loadWorkers, { every: 2 })
  const crumb = (
    <>
      <a href={href("workers")}>Workers</a>
      <Icon name="right" />
      <b>{name}</b>
    </>
  )
  return (
    <View title={name} crumb={crumb}>
      <div class="stackv">
        <Part of={workers}>
          {(found) => {
            const named = found.workers.filter((each) => each.name === name)
            const worker = named.find(({ lost }) => lost === undefined) ?? named[0]
            if (worker === undefined) {
              return (
                <>
                  <h1>{name}</h1>
                  <Empty title="No worker of this name lives">
                    <p>
                      It was not heard of for six seconds, or it has stopped. Its jobs go to others when their leases
                      are over.
                    </p>
                  </Empty>
                </>
              )
            }
            const note = noteOf(worker)
            return (
              <>
                <div class="jobhead">
                  <div>
                    <h1>
                      <StateSign worker={worker} /> {name}
                    </h1>
                    <p class="meta">
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
                    </p>
                  </div>
                  <span class="grow" />
                  {worker.lost === undefined && (
                    <div class="row">
                      <SuspendButton worker={worker} />
                    </div>
                  )}
                </div>
                {note !== undefined && (
                  <Note kind={note[1] === "bad" ? "bad" : "warn"} icon="errors">
                    {note[0]}
                  </Note>
                )}
                <div class="two wide">
                  <Panel title="Runs now" hint={`${whole(worker.running.length)} of ${whole(worker.concurrency)}`} hold>
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
