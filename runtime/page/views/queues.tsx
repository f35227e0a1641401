import { useSignal } from "@preact/signals"
import type { JSX } from "preact"
import type { WorkerView } from "../../cluster/directory.ts"
import type { QueueDetails } from "../../statistics/schema.ts"
import { useLoad } from "../load.ts"
import { busyOf } from "../numbers.ts"
import { ActionButton, Empty, Panel, Part } from "../parts/basic.tsx"
import { Icon } from "../parts/icon.tsx"
import { PauseToggle, runAction } from "../parts/notice.tsx"
import { ACTIONS, Cell, num, Row, Table } from "../parts/table.tsx"
import { Crumb, Head, View } from "../parts/view.tsx"
import { href } from "../router.ts"
import { useStable } from "../stable.ts"
import { get, has, now } from "../state.ts"
import { duration, relative, short, whole } from "../times.ts"
import { Limits } from "./limits.tsx"

interface QueueList {
  readonly queues: ReadonlyArray<QueueDetails>
}

const loadQueues = (signal: AbortSignal): Promise<QueueList> => get<QueueList>("/v1/queues", {}, signal)

/**
 * Sorts queues by the wait of their oldest task, longest first: that wait, not the number of tasks, shows a queue that
 * does not keep up.
 */
const worstFirst = (queues: ReadonlyArray<QueueDetails>): ReadonlyArray<QueueDetails> =>
  queues.toSorted(
    (a, b) => (b.oldestAge ?? 0) - (a.oldestAge ?? 0) || b.depth - a.depth || a.name.localeCompare(b.name),
  )

/** Seconds after which a wait counts as long. */
const LONG = 60

const isBehind = ({ oldestAge = 0, paused }: QueueDetails): boolean => !paused && oldestAge >= LONG

const changed = (name: string | undefined, since: string | undefined): string => {
  const by = name === undefined ? "" : ` by ${name}`
  return since === undefined ? by : `${by}, ${relative(Date.parse(since), now.value)}`
}

/** Describes whether the queue grows or shrinks, or why nothing leaves it. */
const trendOf = (queue: QueueDetails): string => {
  const { paused, pausedBy, pausedSince, depth, perMinute, trend, emptyAt, workers } = queue
  if (paused) return `paused${changed(pausedBy, pausedSince)}`
  if (workers === 0 && depth > 0) return "no worker consumes it"
  if (trend === "growing" && perMinute !== undefined) return `grows by ${short(perMinute.in - perMinute.out)}/min`
  if (trend === "draining" && emptyAt !== undefined) return `empty ${relative(Date.parse(emptyAt), now.value)}`
  if (trend === "steady") return "keeps up"
  return depth === 0 ? "empty" : ""
}

const PauseButton = ({ queue: { name, paused } }: { readonly queue: QueueDetails }): JSX.Element => (
  <PauseToggle
    name={name}
    isOff={paused}
    verbs={["Resume", "Pause"]}
    titles={[`Resume ${name}`, `Pause ${name}`]}
    command={(verb) => ({ method: "POST", path: `/v1/queues/${encodeURIComponent(name)}/${verb}` })}
  />
)

/** The field that limits how many jobs of a queue run at a time; empty: any number. */
const LimitField = ({ queue: { name, maxInFlight } }: { readonly queue: QueueDetails }): JSX.Element => {
  const typed = useSignal<string | undefined>(undefined)
  const text = typed.value ?? (maxInFlight === undefined ? "" : String(maxInFlight))
  const path = `/v1/queues/${encodeURIComponent(name)}`
  // The service refuses text that is no number.
  const body = { maxInFlight: text === "" ? null : Number(text) || text }
  const limit = async (): Promise<void> => {
    if (await runAction(`Limit ${name}`, "PATCH", path, {}, body)) typed.value = undefined
  }
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault()
        void limit()
      }}
    >
      <label class="row small mid">
        At a time, at most
        <input
          class="fld"
          inputMode="numeric"
          size={8}
          placeholder="any number"
          value={text}
          onInput={(event) => {
            typed.value = event.currentTarget.value
          }}
        />
      </label>
      <ActionButton
        scope="operate"
        class="small"
        title={`Limit ${name}`}
        command={{ method: "PATCH", path, body }}
        onClick={() => void limit()}
      >
        Limit
      </ActionButton>
    </form>
  )
}

const PausedTag = (): JSX.Element => (
  <span class="tag">
    <Icon name="pause" />
    paused
  </span>
)

interface QueueRowProps {
  readonly queue: QueueDetails
  /** Whether the service knows rates; without them the columns are left out. */
  readonly isRated: boolean
}

const QueueRow = ({ queue, isRated }: QueueRowProps): JSX.Element => (
  <Row>
    <Cell class="wide">
      <a class="b" href={href("queue", queue.name)} data-row="">
        {queue.name}
      </a>{" "}
      {queue.paused && <PausedTag />}
    </Cell>
    <Cell class={`num ${isBehind(queue) ? "warnc b" : queue.depth === 0 ? "dim" : ""}`} label="waiting">
      {whole(queue.depth)}
    </Cell>
    <Cell class={`num ${isBehind(queue) ? "warnc" : "mid"}`} label="oldest">
      {queue.oldestAge === undefined ? "–" : duration(queue.oldestAge)}
    </Cell>
    {isRated && (
      <Cell class="num mid" label="in">
        {queue.perMinute === undefined ? "–" : `${short(queue.perMinute.in)}/min`}
      </Cell>
    )}
    {isRated && (
      <Cell class="num mid" label="out">
        {queue.perMinute === undefined ? "–" : `${short(queue.perMinute.out)}/min`}
      </Cell>
    )}
    <Cell class={`nowrap ${isBehind(queue) ? "warnc" : "dim"}`} label="">
      {trendOf(queue)}
    </Cell>
    <Cell class="num mid" label="scheduled">
      {whole(queue.scheduled)}
    </Cell>
    <Cell class="num mid" label="running">
      {whole(queue.running)}
    </Cell>
    <Cell class={`num ${queue.workers === 0 && queue.depth > 0 ? "warnc b" : "mid"}`} label="handlers">
      {whole(queue.handlers)}
    </Cell>
    <Cell class="act keep">
      <PauseButton queue={queue} />
    </Cell>
  </Row>
)

const QueueTable = ({ queues }: { readonly queues: ReadonlyArray<QueueDetails> }) => {
  const isRated = queues.some(({ perMinute }) => perMinute !== undefined)
  const rows = useStable("queues", worstFirst(queues), ({ name }) => name)
  if (rows.length === 0) {
    return (
      <Empty title="No queues yet">
        <p>The first task creates one.</p>
      </Empty>
    )
  }
  return (
    <Table
      caption="Queues, longest waiting first"
      columns={[
        "Queue",
        num("Waiting"),
        num("Oldest"),
        ...(isRated ? [num("In"), num("Out")] : []),
        "Trend",
        num("Scheduled"),
        num("Running"),
        num("Handlers"),
        ACTIONS,
      ]}
    >
      {rows.map((queue) => (
        <QueueRow key={queue.name} queue={queue} isRated={isRated} />
      ))}
    </Table>
  )
}

export const Queues = (): JSX.Element => {
  const queues = useLoad("queues", loadQueues, { every: 2 })
  const behind = queues.data?.queues.filter(isBehind).length ?? 0
  return (
    <View title="Queues & limits" count={behind === 0 ? undefined : String(behind)}>
      <div class="stackv">
        <Panel title="Queues" hint="worst first" hold>
          <Part of={queues}>{(found) => <QueueTable queues={found.queues} />}</Part>
        </Panel>
        {has("limits") && <Limits />}
      </div>
    </View>
  )
}

// ── One queue ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Waiting jobs that are shown. */
const SHOWN = 20

const Waiting = ({ name }: { readonly name: string }): JSX.Element => {
  const path = `/v1/queues/${encodeURIComponent(name)}/jobs`
  const waiting = useLoad(
    path,
    (signal) => get<{ readonly ids: ReadonlyArray<string> }>(path, { limit: SHOWN + 1 }, signal),
    { every: 2 },
  )
  return (
    <Panel
      title="Next"
      hint="in the order in which workers take them"
      tools={
        <a class="btn small quiet" href={href("jobs", "", { queue: name })}>
          All its jobs
        </a>
      }
      hold
    >
      <Part of={waiting} rows={3}>
        {({ ids }) =>
          ids.length === 0 ? (
            <Empty title="No job waits for a worker" />
          ) : (
            <ol class="body lines">
              {ids.slice(0, SHOWN).map((id, at) => (
                <li key={id}>
                  <span class="dim">{at + 1}</span>{" "}
                  <a class="mono link" href={href("job", id)} data-row="">
                    {id}
                  </a>
                </li>
              ))}
              {ids.length > SHOWN && <li class="dim small">and more</li>}
            </ol>
          )
        }
      </Part>
    </Panel>
  )
}

const Servers = ({ name }: { readonly name: string }): JSX.Element => {
  const workers = useLoad(
    "workers",
    (signal) => get<{ readonly workers: ReadonlyArray<WorkerView> }>("/v1/workers", {}, signal),
    { every: 3 },
  )
  return (
    <Panel title="Workers" hint="that consume it" hold>
      <Part of={workers} rows={2}>
        {(found) => {
          const own = found.workers.filter(({ queues }) => queues.includes(name))
          return own.length === 0 ? (
            <Empty title="No worker consumes this queue">
              <p>Its tasks wait until a worker does.</p>
            </Empty>
          ) : (
            <ul class="body stackv">
              {own.map((worker) => (
                <li key={worker.name} class="row">
                  <a class="link" href={href("worker", worker.name)}>
                    {worker.name}
                  </a>
                  <span class="dim small">
                    {whole(busyOf(worker))} of {whole(worker.concurrency)} handlers run
                  </span>
                </li>
              ))}
            </ul>
          )
        }}
      </Part>
    </Panel>
  )
}

export const QueueOf = ({ id: name }: { readonly id: string }): JSX.Element => {
  const queues = useLoad("queues", loadQueues, { every: 2 })
  return (
    <View title={name} crumb={<Crumb to="queues" title="Queues" name={name} />}>
      <div class="stackv">
        <Part of={queues}>
          {(found) => {
            const queue = found.queues.find((each) => each.name === name)
            return (
              <>
                <Head
                  title={
                    <>
                      {name} {queue?.paused === true && <PausedTag />}
                    </>
                  }
                  tools={
                    queue !== undefined && (
                      <>
                        <LimitField queue={queue} />
                        <PauseButton queue={queue} />
                      </>
                    )
                  }
                >
                  {queue === undefined ? (
                    <span>This queue does not exist: it has no tasks, and no worker consumes it.</span>
                  ) : (
                    <>
                      <span>
                        <b>{whole(queue.depth)}</b> {queue.depth === 1 ? "waits" : "wait"}
                      </span>
                      {queue.oldestAge !== undefined && <span>the oldest for {duration(queue.oldestAge)}</span>}
                      <span>
                        <b>{whole(queue.scheduled)}</b> scheduled
                      </span>
                      <span>
                        <b>{whole(queue.running)}</b> {queue.running === 1 ? "runs" : "run"}
                      </span>
                      {queue.perMinute !== undefined && (
                        <span>
                          {short(queue.perMinute.in)}/min in, {short(queue.perMinute.out)}/min out
                        </span>
                      )}
                      {trendOf(queue) !== "" && <span>{trendOf(queue)}</span>}
                      {queue.limitedSince !== undefined && (
                        <span>limited{changed(queue.limitedBy, queue.limitedSince)}</span>
                      )}
                    </>
                  )}
                </Head>
                <div class="two">
                  <Waiting name={name} />
                  <Servers name={name} />
                </div>
              </>
            )
          }}
        </Part>
      </div>
    </View>
  )
}
