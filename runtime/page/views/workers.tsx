/** Workers: the load and the health of each, and workers that have ended. */
import { useSignal } from "@preact/signals"
import type { JSX } from "preact"
import type { WorkerView } from "../../cluster/directory.ts"
import { useLoad } from "../load.ts"
import { busyOf } from "../numbers.ts"
import { Empty, Panel, Part, Segments } from "../parts/basic.tsx"
import { ACTIONS, Cell, num, Row, Table } from "../parts/table.tsx"
import { View } from "../parts/view.tsx"
import { href } from "../router.ts"
import { useStable } from "../stable.ts"
import { bytes, duration, percent, roughly, short, whole } from "../times.ts"
import {
  isLost,
  LATE,
  loadWorkers,
  NEAR,
  noteOf,
  type OnWorker,
  RunningTable,
  StateSign,
  SuspendButton,
  since,
  usedOf,
  versionOf,
} from "./worker.tsx"

export { WorkerOf } from "./worker.tsx"

/** A worker that was started again has the name of the ended one, so the key contains more than the name. */
const keyOfWorker = ({ name, startedAt }: WorkerView): string => `${startedAt} ${name}`

/** Most handler slots that are drawn one by one; for more of them only their number is shown. */
const MAX_SLOTS = 64

const Slots = ({ worker }: { readonly worker: WorkerView }): JSX.Element => {
  const { concurrency, jobs = [] } = worker
  const busy = busyOf(worker)
  const words = `${whole(busy)} of ${whole(concurrency)} handlers run`
  if (concurrency > MAX_SLOTS) return <span class="mid">{words}</span>
  return (
    <span class="slots" role="img" aria-label={words}>
      {Array.from({ length: concurrency }, (_, at) => {
        const job = jobs[at]
        const used = job === undefined ? undefined : usedOf(job)
        return <i key={at} class={at >= busy ? "" : used !== undefined && used >= NEAR ? "h" : "r"} />
      })}
    </span>
  )
}

interface WorkerRowProps {
  readonly worker: WorkerView
  /** Whether memory and lag are known; without them the columns are left out. */
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
  name: (worker: WorkerView) => worker.name,
  version: (worker: WorkerView) => `${versionOf(worker)} ${worker.name}`,
  queue: (worker: WorkerView) => `${worker.queues.join(", ")} ${worker.name}`,
} as const
type Order = keyof typeof ORDERS

const WorkerTable = ({
  workers,
  order,
}: {
  readonly workers: ReadonlyArray<WorkerView>
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

/** Number of longest running jobs that are shown. */
const LONGEST = 10

const longestOf = (workers: ReadonlyArray<WorkerView>): ReadonlyArray<OnWorker> =>
  workers
    .flatMap(({ name, jobs = [], lost }) => (lost === undefined ? jobs.map((job) => ({ job, worker: name })) : []))
    .toSorted((a, b) => Date.parse(a.job.startedAt) - Date.parse(b.job.startedAt))
    .slice(0, LONGEST)

const Summary = ({ workers }: { readonly workers: ReadonlyArray<WorkerView> }): JSX.Element => {
  const alive = workers.filter(({ lost }) => lost === undefined)
  const lost = workers.filter(isLost)
  const busy = alive.reduce((sum, worker) => sum + busyOf(worker), 0)
  const all = alive.reduce((sum, { concurrency }) => sum + concurrency, 0)
  const versions = Object.entries(Object.groupBy(alive, versionOf))
  return (
    <section class="flow plain" aria-label="Workers now">
      <div>
        <span class="dim small">Alive</span>
        <span class="v">{whole(alive.length)}</span>
        <span class={`d ${lost.length > 0 ? "bad" : ""}`}>
          {lost.length === 0 ? "none lost recently" : `${whole(lost.length)} lost in the last 15 minutes`}
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
              <Empty title="No workers are running">
                <p>
                  Tasks wait until there is one: <code>callboard worker</code> or <code>serve()</code> starts one.
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
