/** Prints the answers of workers as tables: fields in columns, or one field per line where there are many. */
import type { Reply } from "../cluster/remote/command.ts"
import { bytesText, idText, listText, oneLine, spanText, timeText } from "./format.ts"
import type { Output } from "./output.ts"

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const isPlain = (value: unknown): boolean => typeof value !== "object" || value === null

/** `startedAt` as a heading: `STARTED AT`. */
const headingOf = (key: string): string => key.replace(/[A-Z]/g, (letter) => ` ${letter}`).toUpperCase()

/** These fields hold milliseconds since the epoch, seconds, and bytes; only their names tell. */
const isMoment = (key: string, value: unknown): value is number => key === "until" && typeof value === "number"
const isSpan = (key: string, value: unknown): value is number => key.endsWith("Seconds") && typeof value === "number"
const isBytes = (key: string, value: unknown): value is number => key.startsWith("memory ") && typeof value === "number"

const cellOf = (key: string, value: unknown, output: Output): string => {
  if (value === null || value === undefined) return ""
  if (isMoment(key, value)) return timeText(new Date(value).toISOString(), output)
  if (isSpan(key, value)) return spanText(value * 1_000)
  if (isBytes(key, value)) return bytesText(value)
  if (Array.isArray(value)) return listOf(key, value, output)
  if (isFields(value))
    return listText(Object.entries(value).map(([name, each]) => `${name} ${cellOf(name, each, output)}`))
  const text = String(value)
  if (key === "id" || key === "running") return idText(text, output)
  return key.endsWith("At") ? timeText(text, output) : oneLine(text)
}

/** Plain values joined by commas; for objects and lists only their number. */
const listOf = (key: string, list: ReadonlyArray<unknown>, output: Output): string =>
  list.every(isPlain)
    ? listText(
        list.map((each) => cellOf(key, each, output)),
        output.wide ? list.length : 10,
      )
    : String(list.length)

/** One row for each field of an answer. Nested fields are named by both names. */
const factsOf = (fields: Fields, output: Output, within = ""): ReadonlyArray<ReadonlyArray<string>> =>
  Object.entries(fields).flatMap(([key, value]) =>
    isFields(value)
      ? factsOf(value, output, `${key} `)
      : [
          [
            headingOf(`${within}${key.replace(/Seconds$/, "")}`).toLowerCase(),
            cellOf(`${within}${key}`, value, output) || "-",
          ],
        ],
  )

interface Row {
  readonly worker: string
  readonly fields: Fields
}

/** One row for each element of a list, one row for any other value. */
const rowsOf = ({ worker, value }: Reply): ReadonlyArray<Row> => {
  const list: ReadonlyArray<unknown> = Array.isArray(value) && !value.every(isPlain) ? value : [value]
  return list.map((each) => ({ worker, fields: isFields(each) ? each : { answer: each } }))
}

/** Whether an answer has nested fields, for which a table has no room. */
const isLong = ({ value }: Reply): boolean => isFields(value) && Object.values(value).some((each) => !isPlain(each))

/** Prints the answers, then the errors of workers that could not answer. */
export const printAnswers = (output: Output, answers: ReadonlyArray<Reply>): void => {
  const values = answers.filter(({ error }) => error === undefined)
  const errors = answers.filter(({ error }) => error !== undefined)
  const empty = values.filter(({ value }) => Array.isArray(value) && value.length === 0)
  const long = values.filter(isLong)
  const rows = values.filter((answer) => !long.includes(answer) && !empty.includes(answer)).flatMap(rowsOf)
  if (answers.length === 0) output.note("no workers are alive")
  for (const { worker, value } of long) {
    const facts = isFields(value) ? factsOf(value, output) : []
    output.table(["WORKER", worker], facts, "")
  }
  if (rows.length > 0 || empty.length > 0) {
    const keys = [...new Set(rows.flatMap(({ fields }) => Object.keys(fields)))]
    const columns = keys.length === 0 ? ["answer"] : keys
    output.table(
      ["WORKER", ...columns.map(headingOf)],
      [
        ...rows.map(({ worker, fields }) => [worker, ...columns.map((key) => cellOf(key, fields[key], output))]),
        ...empty.map(({ worker }) => [worker, "-"]),
      ],
      "",
    )
  }
  if (errors.length > 0) {
    output.table(
      ["WORKER", "ERROR"],
      errors.map(({ worker, error = "" }) => [worker, output.paint(error, "red")]),
      "",
    )
  }
}
