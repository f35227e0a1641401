/** Schedules: their next starts, the results of their last runs, pause and "run now". */
import { useSignal } from "@preact/signals"
import type { JSX } from "preact"
import type { ScheduleRun, ScheduleView } from "../../schedules/view.ts"
import { useLoad } from "../load.ts"
import { Empty, Panel, Part } from "../parts/basic.tsx"
import { StateWord } from "../parts/icon.tsx"
import { PauseToggle, RequestButton } from "../parts/notice.tsx"
import { Pager, useCursors } from "../parts/pager.tsx"
import { ACTIONS, Cell, num, Row, Table } from "../parts/table.tsx"
import { Moment } from "../parts/time.tsx"
import { View } from "../parts/view.tsx"
import { href } from "../router.ts"
import { useStable } from "../stable.ts"
import { get, now } from "../state.ts"
import { roughly, whole } from "../times.ts"

interface ScheduleList {
  readonly schedules: ReadonlyArray<ScheduleView>
  readonly next?: string
}

/** Schedules per page of the list. */
const PAGE = 50

const taskOf = ({ fields: { task, meth } }: ScheduleView): string => (meth === undefined ? task : `${task}.${meth}`)

/** A moment as it was given, which is in UTC where it names no zone. */
const inZone = (at: string): string => (/(?:z|[+-]\d\d:?\d\d)$/i.test(at) ? at : `${at}Z`)

const whenOf = ({ fields: { cron, every, at } }: ScheduleView): JSX.Element => {
  if (cron !== undefined) return <code>{cron}</code>
  if (every !== undefined) return <span>every {typeof every === "number" ? `${every} s` : every}</span>
  return (
    <span>
      once
      {at !== undefined && (
        <>
          , at <Moment at={inZone(at)} as="clock" />
        </>
      )}
    </span>
  )
}

const zoneOf = ({ fields: { cron, timeZone } }: ScheduleView): string => (cron === undefined ? "" : (timeZone ?? "UTC"))

const WHY: Readonly<Record<string, string>> = {
  late: "too late",
  overlap: "the previous job had not ended",
  paused: "it was paused",
  refused: "the task was refused",
}

const path = (name: string, action = ""): string => `/v1/schedules/${encodeURIComponent(name)}${action}`

const Actions = ({ schedule }: { readonly schedule: ScheduleView }): JSX.Element => {
  const { name, state } = schedule
  return (
    <span class="row">
      <RequestButton
        scope="operate"
        class="small"
        icon="play"
        words={`Run ${name} now`}
        title={`Run ${name} now`}
        command={{ method: "POST", path: path(name, "/run") }}
      >
        Run now
      </RequestButton>
      {state !== "over" && (
        <PauseToggle
          name={name}
          isOff={state === "paused"}
          verbs={["Resume", "Pause"]}
          titles={[`Resume ${name}`, `Pause ${name}`]}
          command={(verb) => ({ method: "POST", path: path(name, `/${verb}`) })}
        />
      )}
    </span>
  )
}

const Runs = ({ runs }: { readonly runs: ReadonlyArray<ScheduleRun> }): JSX.Element =>
  runs.length === 0 ? (
    <p class="small dim">It has not run yet.</p>
  ) : (
    <ol class="stackv">
      {runs.map(({ id, due, state }) => (
        <li key={id} class="row small">
          {state === undefined ? <span class="dim">not kept</span> : <StateWord name={state} />}
          <a class="link" href={href("job", id)}>
            due <Moment at={due} as="clock" />
          </a>
        </li>
      ))}
    </ol>
  )

/** Details of one schedule: the next starts and the last runs. */
const Details = ({ name }: { readonly name: string }): JSX.Element => {
  const one = useLoad(path(name), (signal) => get<ScheduleView>(path(name), {}, signal), { every: 3, keep: true })
  return (
    <Part of={one} rows={3}>
      {({ upcoming = [], runs, missed, declaredBy, waiting, state }) => (
        <div class="three small">
          <div>
            <h3>Next</h3>
            {upcoming.length === 0 ? (
              <p class="dim">{state === "over" ? "It is never due again." : "It is paused."}</p>
            ) : (
              <ol>
                {upcoming.map((at) => (
                  <li key={at}>
                    <Moment at={at} as="clock" />{" "}
                    <span class="dim">in {roughly((Date.parse(at) - now.value) / 1000)}</span>
                  </li>
                ))}
              </ol>
            )}
            {waiting > 0 && <p class="warnc">{whole(waiting)} waiting until the previous job has ended.</p>}
            {declaredBy !== undefined && <p class="dim">Declared by the actor {declaredBy}.</p>}
          </div>
          <div>
            <h3>Last runs</h3>
            <Runs runs={runs} />
          </div>
          <div>
            <h3>Missed</h3>
            {missed.count === 0 ? (
              <p class="dim">None.</p>
            ) : (
              <>
                <p>{whole(missed.count)} in all.</p>
                <ol>
                  {missed.latest.slice(0, 5).map(({ from, count, why, detail }) => (
                    <li key={from}>
                      <Moment at={from} as="clock" />{" "}
                      <span class="dim">
                        {whole(count)}, {WHY[why] ?? why}
                        {detail !== undefined && `: ${detail}`}
                      </span>
                    </li>
                  ))}
                </ol>
              </>
            )}
          </div>
        </div>
      )}
    </Part>
  )
}

const ScheduleRow = ({ schedule }: { readonly schedule: ScheduleView }): JSX.Element => {
  const isOpen = useSignal(false)
  const { name, state, next, missed, runs } = schedule
  const id = `schedule-${name}`
  const last = runs[0]
  return (
    <>
      <Row>
        <Cell class="wide">
          <button
            type="button"
            class="more b"
            aria-expanded={isOpen.value}
            aria-controls={id}
            data-row=""
            onClick={() => {
              isOpen.value = !isOpen.value
            }}
          >
            {name}
          </button>
          <span class="sub mono">{taskOf(schedule)}</span>
        </Cell>
        <Cell label="">
          {whenOf(schedule)} <span class="sub">{zoneOf(schedule)}</span>
        </Cell>
        <Cell class="nowrap" label="next">
          {next === undefined ? (
            <span class="tag">{state}</span>
          ) : (
            <>
              <Moment at={next} as="clock" />
              <span class="sub">in {roughly((Date.parse(next) - now.value) / 1000)}</span>
            </>
          )}
        </Cell>
        <Cell class="nowrap mid" label="last">
          {last === undefined ? "–" : <Moment at={last.posted} />}
        </Cell>
        <Cell class={`num ${missed.count > 0 ? "warnc" : "dim"}`} label="missed">
          {whole(missed.count)}
        </Cell>
        <Cell class="act keep">
          <Actions schedule={schedule} />
        </Cell>
      </Row>
      <Row id={id} hidden={!isOpen.value}>
        <Cell class="wide" span={6}>
          {isOpen.value && <Details name={name} />}
        </Cell>
      </Row>
    </>
  )
}

const ScheduleTable = ({ schedules }: { readonly schedules: ReadonlyArray<ScheduleView> }) => {
  const rows = useStable("schedules", schedules, ({ name }) => name)
  return (
    <Table caption="Schedules by name" columns={["Schedule", "When", "Next", "Last", num("Missed"), ACTIONS]}>
      {rows.map((schedule) => (
        <ScheduleRow key={schedule.name} schedule={schedule} />
      ))}
    </Table>
  )
}

export const Schedules = (): JSX.Element => {
  const cursors = useCursors()
  const cursor = cursors.value.at(-1)
  const list = useLoad(
    `schedules ${cursor ?? ""}`,
    (signal) => get<ScheduleList>("/v1/schedules", { limit: PAGE, cursor }, signal),
    { every: 3 },
  )
  const pausedCount = list.data?.schedules.filter(({ state }) => state === "paused").length ?? 0
  return (
    <View title="Schedules">
      <Panel title="By name" hint={pausedCount === 0 ? undefined : `${whole(pausedCount)} paused`} hold>
        <Part of={list}>
          {({ schedules, next }) =>
            schedules.length === 0 ? (
              <Empty title="No schedules yet">
                <p>
                  An actor declares one with <code>schedule</code>; <code>callboard schedules create</code> makes one as
                  well.
                </p>
              </Empty>
            ) : (
              <>
                <ScheduleTable schedules={schedules} />
                <Pager cursors={cursors} next={next} back="Before" forth="After" />
              </>
            )
          }
        </Part>
      </Panel>
    </View>
  )
}
