/**
 * The chart of ended jobs over time: successes above the line, failures below it on a scale of their own, and marks for
 * events of the board.
 */
import { useSignal } from "@preact/signals"
import type { JSX } from "preact"
import { BASE, chartOf, type Outcomes, placeOf } from "../chart.ts"
import type { Loaded } from "../load.ts"
import { zone } from "../state.ts"
import { minuteOf, short, whole } from "../times.ts"
import { Button, Panel, Part } from "./basic.tsx"
import { Cell, num, Row, Table } from "./table.tsx"

const pct = (part: number): string => `${(part * 100).toFixed(2)}%`

export const EndedPanel = ({ of }: { readonly of: Loaded<Outcomes> }): JSX.Element => {
  const isTable = useSignal(false)
  return (
    <Panel
      title={
        of.data !== undefined && of.data.step > 60
          ? `Ended at workers in each ${whole(of.data.step / 60)} minutes`
          : "Ended at workers per minute"
      }
      hint={<span class="hide-s">failures below the axis, on a separate scale</span>}
      tools={
        <>
          <span class="legend">
            <span>
              <i class="ok" />
              succeeded
            </span>
            <span>
              <i class="fail" />
              failed
            </span>
            <span>
              <i class="cx" />
              other
            </span>
          </span>
          <Button
            class="small quiet sq"
            icon="cols"
            label={isTable.value ? "Show as a chart" : "Show as a table"}
            pressed={isTable.value}
            onClick={() => (isTable.value = !isTable.value)}
          />
        </>
      }
    >
      <Part of={of}>
        {(series) => (
          <>
            {isTable.value ? <AsTable series={series} /> : <AsChart series={series} />}
            {series.partial === true && (
              <p class="body small dim">Not everything could be read in time; the next refresh continues.</p>
            )}
          </>
        )}
      </Part>
    </Panel>
  )
}

const AsChart = ({ series }: { readonly series: Outcomes }): JSX.Element => {
  const { bars, up, down, total } = chartOf(series)
  const [from, to] = [Date.parse(series.from), Date.parse(series.to)]
  const ticks = [0, 1, 2, 3, 4, 5].map((at) => from + ((to - from) * at) / 6)
  const marks = series.marks.flatMap((mark) => {
    const x = placeOf(series, mark.at)
    return x === undefined ? [] : [{ ...mark, x }]
  })
  const said = `${whole(total.ok)} succeeded, ${whole(total.failed)} failed and ${whole(total.other)} ended in another state between ${minuteOf(from, zone.value)} and ${minuteOf(to, zone.value)}.${marks.map(({ text, at }) => ` ${text} at ${minuteOf(Date.parse(at), zone.value)}.`).join("")}`
  return (
    <div class="body">
      <div class="chartw">
        <svg aria-hidden="true">
          <text class="t-axis" x="0" y={BASE - 92}>
            {short(up)}
          </text>
          <text class="t-axis" x="0" y={BASE + 4}>
            0
          </text>
          <text class="t-axis" x="0" y={BASE + 54}>
            {short(down)}
          </text>
        </svg>
        <svg role="img" aria-label={said}>
          <line class="l-grid" x1="0" x2="100%" y1={BASE - 96} y2={BASE - 96} />
          <line class="l-grid" x1="0" x2="100%" y1={BASE + 52} y2={BASE + 52} />
          {bars.map((bar, at) => (
            <g key={at}>
              {bar.ok > 0 && (
                <rect
                  class="f-ok"
                  x={pct(bar.x)}
                  width={pct(bar.width)}
                  y={(BASE - bar.ok).toFixed(1)}
                  height={bar.ok.toFixed(1)}
                />
              )}
              {bar.failed > 0 && (
                <rect
                  class="f-fail"
                  x={pct(bar.x)}
                  width={pct(bar.width)}
                  y={BASE + 2}
                  height={bar.failed.toFixed(1)}
                />
              )}
              {bar.other > 0 && (
                <rect
                  class="f-line"
                  x={pct(bar.x)}
                  width={pct(bar.width)}
                  y={(BASE + 2 + bar.failed).toFixed(1)}
                  height={bar.other.toFixed(1)}
                />
              )}
            </g>
          ))}
          <line class="l-axis" x1="0" x2="100%" y1={BASE + 0.5} y2={BASE + 0.5} />
          {marks.map(({ x, at, kind, text }) => (
            <g key={`${at} ${text}`}>
              <line class="l-mark" x1={pct(x)} x2={pct(x)} y1="4" y2={BASE + 58} />
              <text
                class="t-mark hide-s"
                x={pct(x)}
                dx={x > 0.5 ? -6 : 6}
                y="13"
                text-anchor={x > 0.5 ? "end" : "start"}
              >
                {kind === "version" ? `version ${text}` : `${text} lost`}
              </text>
            </g>
          ))}
          {ticks.map((tick, at) => (
            <text key={tick} class={`t-axis ${at % 2 === 1 ? "hide-s" : ""}`} x={pct(at / 6)} y="193">
              {minuteOf(tick, zone.value)}
            </text>
          ))}
          <text class="t-axis" x="100%" y="193" text-anchor="end">
            {minuteOf(to, zone.value)}
          </text>
        </svg>
      </div>
    </div>
  )
}

const AsTable = ({ series }: { readonly series: Outcomes }): JSX.Element => {
  const of = (key: string, at: number): string => {
    const value = series.series.find((each) => each.key === key)?.points[at]
    return value === null || value === undefined ? "–" : whole(value)
  }
  const length = Math.max(0, ...series.series.map(({ points }) => points.length))
  const from = Date.parse(series.from)
  return (
    <Table
      caption="Jobs that ended at workers, newest first"
      columns={["From", num("Succeeded"), num("Failed"), num("Other")]}
    >
      {Array.from({ length }, (_, index) => length - 1 - index).map((at) => (
        <Row key={at}>
          <Cell class="wide">{minuteOf(from + at * series.step * 1000, zone.value)}</Cell>
          <Cell class="num" label="succeeded">
            {of("ok", at)}
          </Cell>
          <Cell class="num" label="failed">
            {of("failed", at)}
          </Cell>
          <Cell class="num" label="other">
            {of("other", at)}
          </Cell>
        </Row>
      ))}
    </Table>
  )
}
