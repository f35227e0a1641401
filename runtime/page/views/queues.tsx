/** Queues, worst first, and the limits of methods. */
import { useSignal } from "@preact/signals"
import type { JSX } from "preact"
import { useLoad } from "../load.ts"
import { Decision, Empty, Panel, Part } from "../parts/basic.tsx"
import { Meter } from "../parts/chart.tsx"
import { Icon } from "../parts/icon.tsx"
import { decide } from "../parts/said.tsx"
import { ACTIONS, Cell, num, Row, Table } from "../parts/table.tsx"
import { Moment } from "../parts/time.tsx"
import { View } from "../parts/view.tsx"
import { href } from "../router.ts"
import type { Limit, LimitKey, Queue, Worker } from "../service.ts"
import { useStable } from "../stable.ts"
import { get, has, now } from "../state.ts"
import { duration, relative, short, whole } from "../times.ts"

interface QueueList {
  readonly queues: ReadonlyArray<Queue>
}

const loadQueues = (signal: AbortSignal): Promise<QueueList> => get<QueueList>("/v1/queues", {}, signal)

/** Those whose oldest task has waited longest come first: age, not depth, says that a queue does not keep up. */
const worstFirst = (queues: ReadonlyArray<Queue>): ReadonlyArray<Queue> =>
  queues.toSorted(
    (a, b) => (b.oldestAge ?? 0) - (a.oldestAge ?? 0) || b.depth - a.depth || a.name.localeCompare(b.name),
  )

/** After so many seconds a task has waited long. */
const LONG = 60

const isBehind = ({ oldestAge = 0, paused }: Queue): boolean => !paused && oldestAge >= LONG

/** In words what becomes of the queue. */
const trendOf = (queue: Queue): string => {
  const { paused, pausedBy, pausedSince, depth, perMinute, trend, emptyAt } = queue
  if (paused) {
    const by = pausedBy === undefined ? "" : ` by ${pausedBy}`
    return pausedSince === undefined ? `paused${by}` : `paused${by}, ${relative(Date.parse(pausedSince), now.value)}`
  }
  if (trend === "growing" && perMinute !== undefined) return `grows by ${short(perMinute.in - perMinute.out)}/min`
  if (trend === "draining" && emptyAt !== undefined) return `empty ${relative(Date.parse(emptyAt), now.value)}`
  if (trend === "steady") return "keeps up"
  return depth === 0 ? "empty" : ""
}

const PauseButton = ({ queue }: { readonly queue: Queue }): JSX.Element => {
  const verb = queue.paused ? "resume" : "pause"
  const command = { method: "POST", path: `/v1/queues/${encodeURIComponent(queue.name)}/${verb}` }
  return (
    <Decision
      scope="operate"
      class="small"
      icon={queue.paused ? "play" : "pause"}
      command={command}
      title={queue.paused ? `Let ${queue.name} give out tasks again` : `Let ${queue.name} give none out`}
      onClick={() => void decide(`${queue.paused ? "Resume" : "Pause"} ${queue.name}`, command.method, command.path)}
    >
      {queue.paused ? "Resume" : "Pause"}
    </Decision>
  )
}

const PausedTag = (): JSX.Element => (
  <span class="tag">
    <Icon name="pause" />
    paused
  </span>
)

interface QueueRowProps {
  readonly queue: Queue
  /** Whether rates are known. */
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
    <Cell class="num mid" label="in hand">
      {whole(queue.inFlight)}
    </Cell>
    <Cell class={`num ${queue.workers === 0 && queue.depth > 0 ? "warnc b" : "mid"}`} label="handlers">
      {whole(queue.handlers)}
    </Cell>
    <Cell class="act keep">
      <PauseButton queue={queue} />
    </Cell>
  </Row>
)

const QueueTable = ({ queues }: { readonly queues: ReadonlyArray<Queue> }) => {
  const isRated = queues.some(({ perMinute }) => perMinute !== undefined)
  const rows = useStable("queues", worstFirst(queues), ({ name }) => name)
  if (rows.length === 0) {
    return (
      <Empty title="No queue yet">
        <p>The first task makes one.</p>
      </Empty>
    )
  }
  return (
    <Table
      caption="Queues, the one that waits longest first"
      columns={[
        "Queue",
        num("Waiting"),
        num("Oldest"),
        ...(isRated ? [num("In"), num("Out")] : []),
        "Trend",
        num("Scheduled"),
        num("In hand"),
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

// ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const limitWords = ({ concurrency, rate }: Limit): string =>
  [concurrency === undefined ? "" : `${whole(concurrency)} at a time`, rate ?? ""]
    .filter((each) => each !== "")
    .join(", ")

const Keys = ({ limit }: { readonly limit: Limit }): JSX.Element => {
  const path = `/v1/limits/${encodeURIComponent(limit.task)}/keys`
  const keys = useLoad(path, (signal) => get<{ readonly keys: ReadonlyArray<LimitKey> }>(path, { limit: 20 }, signal), {
    every: 2,
  })
  return (
    <div class="in">
      <Part of={keys} rows={3}>
        {(found) =>
          found.keys.length === 0 ? (
            <p class="small dim">Nothing is held.</p>
          ) : (
            <ul class="keys">
              <li>
                <span>Key</span>
                <span>Runs</span>
                <span>Share of what waits</span>
                <span class="num">Waiting</span>
                <span class="num">Next starts</span>
              </li>
              {found.keys.map((each) => (
                <li key={each.key}>
                  <b>{each.key}</b>
                  <span>{whole(each.running)}</span>
                  <Meter parts={[[each.held / Math.max(1, limit.held), "f-warn"]]} />
                  <span class="num">
                    {whole(each.held)}{" "}
                    {each.oldest !== undefined && <span class="dim small">{duration(each.oldest)}</span>}
                  </span>
                  <span class="num small mid">
                    {each.nextFree === undefined ? "–" : <Moment at={each.nextFree} as="clock" />}
                  </span>
                </li>
              ))}
            </ul>
          )
        }
      </Part>
    </div>
  )
}

const LimitRow = ({ limit }: { readonly limit: Limit }): JSX.Element => {
  const isOpen = useSignal(false)
  return (
    <details class="lim" onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
      <summary data-row="">
        <Icon name="right" class="c" />
        <span class="clip">
          <b>{limit.task}</b> {limit.keyed && <span class="dim small">by key</span>}
        </span>
        <span class="mid small">{limitWords(limit)}</span>
        <span class="small mid">
          {whole(limit.running)} run{limit.keys === undefined ? "" : `, ${whole(limit.keys.total)} keys`}
        </span>
        <span class={`num ${limit.held === 0 ? "dim" : ""}`}>{whole(limit.held)} held</span>
        <span class="num small mid">{limit.oldest === undefined ? "–" : `oldest ${duration(limit.oldest)}`}</span>
      </summary>
      {isOpen.value &&
        (limit.keyed ? (
          <Keys limit={limit} />
        ) : (
          <p class="in small dim">It has no key: all jobs of the method keep to it together.</p>
        ))}
    </details>
  )
}

const Limits = (): JSX.Element => {
  const limits = useLoad(
    "limits",
    (signal) => get<{ readonly limits: ReadonlyArray<Limit> }>("/v1/limits", {}, signal),
    { every: 2 },
  )
  return (
    <Panel title="Limits" hint="of methods, over all workers" hold>
      <Part of={limits} rows={3}>
        {(found) =>
          found.limits.length === 0 ? (
            <Empty title="No method has a limit" />
          ) : (
            found.limits.map((limit) => <LimitRow key={limit.task} limit={limit} />)
          )
        }
      </Part>
    </Panel>
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

/** How many of those that wait are shown. */
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
      hint="in the order in which they will be taken"
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
            <Empty title="Nothing waits" />
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
    (signal) => get<{ readonly workers: ReadonlyArray<Worker> }>("/v1/workers", {}, signal),
    { every: 3 },
  )
  return (
    <Panel title="Workers" hint="that take from it" hold>
      <Part of={workers} rows={2}>
        {(found) => {
          const own = found.workers.filter(({ queues }) => queues.includes(name))
          return own.length === 0 ? (
            <Empty title="No worker takes from this queue">
              <p>What is posted to it waits until one does.</p>
            </Empty>
          ) : (
            <ul class="body stackv">
              {own.map((worker) => (
                <li key={worker.name} class="row">
                  <a class="link" href={href("worker", worker.name)}>
                    {worker.name}
                  </a>
                  <span class="dim small">
                    {whole(worker.running.length)} of {whole(worker.concurrency)} handlers run
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
  const crumb = (
    <>
      <a href={href("queues")}>Queues</a>
      <Icon name="right" />
      <b>{name}</b>
    </>
  )
  return (
    <View title={name} crumb={crumb}>
      <div class="stackv">
        <Part of={queues}>
          {(found) => {
            const queue = found.queues.find((each) => each.name === name)
            return (
              <>
                <div class="jobhead">
                  <div>
                    <h1>
                      {name} {queue?.paused === true && <PausedTag />}
                    </h1>
                    <p class="meta">
                      {queue === undefined ? (
                        <span>There is no such queue now: nothing waits in it, and no worker takes from it.</span>
                      ) : (
                        <>
                          <span>
                            <b>{whole(queue.depth)}</b> wait
                          </span>
                          {queue.oldestAge !== undefined && <span>the oldest for {duration(queue.oldestAge)}</span>}
                          <span>
                            <b>{whole(queue.scheduled)}</b> scheduled
                          </span>
                          <span>
                            <b>{whole(queue.inFlight)}</b> in the hands of workers
                          </span>
                          {queue.perMinute !== undefined && (
                            <span>
                              {short(queue.perMinute.in)}/min in, {short(queue.perMinute.out)}/min out
                            </span>
                          )}
                          {trendOf(queue) !== "" && <span>{trendOf(queue)}</span>}
                        </>
                      )}
                    </p>
                  </div>
                  <span class="grow" />
                  {queue !== undefined && (
                    <div class="row">
                      <PauseButton queue={queue} />
                    </div>
                  )}
                </div>
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
