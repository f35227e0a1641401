/**
 * Reads values of the command line: JSON, `@file` with JSON, `-` for standard input, answers to questions, and ids of jobs,
 * which may be given by the ending that tables show.
 */
import { readFile } from "node:fs/promises"
import { createInterface } from "node:readline"
import * as Result from "effect/Result"
import type { Client } from "../client/client.ts"
import type { JobPage } from "../client/job-query.ts"
import { CallboardError } from "../errors.ts"
import { visible } from "../log/log-value.ts"
import { parseJson } from "../protocol/codec/json.ts"
import { compact } from "../protocol/compact.ts"
import { isMap } from "../protocol/guards.ts"
import { TransportError } from "../transport/mod.ts"
import { wrongUsage } from "./failure.ts"

const readAll = async (stream: NodeJS.ReadStream): Promise<string> => {
  const chunks: Array<Uint8Array> = []
  for await (const chunk of stream) chunks.push(typeof chunk === "string" ? Buffer.from(chunk) : chunk)
  return Buffer.concat(chunks).toString("utf8")
}

const inputText = (given: string): Promise<string> => {
  if (given === "-") return readAll(process.stdin)
  if (!given.startsWith("@")) return Promise.resolve(given)
  const path = given.slice(1)
  return readFile(path, "utf8").catch((cause: unknown) =>
    wrongUsage(`${path} cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`),
  )
}

/** Reads a JSON value, with the numbers that it means, as over HTTP. `what` names it in the error. */
export const jsonOf = async (what: string, given: string): Promise<unknown> => {
  const text = await inputText(given)
  const value = parseJson(text)
  if (Result.isSuccess(value)) return value.success
  const where = given === "-" ? " from standard input" : given.startsWith("@") ? ` in ${given.slice(1)}` : ""
  const hint = where === "" && /^[\w.-]+$/.test(given) ? `; quote a text: '"${given}"'` : ""
  return wrongUsage(`${what}${where} is ${value.failure.message}${hint}`)
}

/**
 * Reads arguments: `text`, `:json`, `@file` (its content as text), and by name `key=text`, `key:=json`. Fails with
 * wrong usage.
 */
export const argumentsOf = async (
  given: ReadonlyArray<string>,
): Promise<{ readonly args: ReadonlyArray<unknown>; readonly kwargs: Readonly<Record<string, unknown>> }> => {
  const args: Array<unknown> = []
  const kwargs: Record<string, unknown> = {}
  for (const text of given) {
    const [, name, json, value = ""] = /^([A-Za-z_]\w*)(:?)=(.*)$/s.exec(text) ?? []
    if (name !== undefined) {
      if (Object.hasOwn(kwargs, name)) wrongUsage(`--arg ${name}: is given twice`)
      kwargs[name] = json === "" ? value : await jsonOf(`--arg ${name}`, value)
    } else if (text.startsWith(":")) args.push(await jsonOf(`--arg ${text}`, text.slice(1)))
    else args.push(text.startsWith("@") ? await inputText(text) : text)
  }
  return { args, kwargs }
}

/** Reads a JSON object. */
export const objectOf = async (what: string, given: string): Promise<Readonly<Record<string, unknown>>> => {
  const value = await jsonOf(what, given)
  return isMap(value) ? value : wrongUsage(`${what} must be a JSON object`)
}

/** A numeral as a number. Other text stays text, for the check of the field to refuse. */
export const numberOrText = (text: string): number | string =>
  text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text

/** Whether questions can be asked: both standard input and standard error are a terminal. */
export const canAsk = (): boolean => process.stdin.isTTY === true && process.stderr.isTTY === true

/** Asks on standard error, and reads a line. Any answer but `y` or `yes` means no, also the end of the input. */
export const confirms = async (question: string): Promise<boolean> => {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const answer = await new Promise<string>((resolve) => {
    lines.once("close", () => resolve(""))
    lines.question(`${visible(question)} [y/N] `, resolve)
  })
  lines.close()
  return /^y(es)?$/i.test(answer.trim())
}

/** Shortest ending that is searched for, in characters. */
const MIN_ENDING = 4

/** Most jobs that are searched for an ending, newest first, since listing reads each of them. */
export const MAX_SEARCHED = 10_000

const PAGE = 1_000

/** Most candidates that the error names. */
const MAX_NAMED = 5

/** Help text of id arguments. */
export const ID_HELP = `its id, or the last ${MIN_ENDING} or more characters of the id, if they are unique among the newest ${MAX_SEARCHED.toLocaleString("en")} jobs`

/** The form of generated ids, which need no lookup. */
const GENERATED = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/**
 * The id of the job with exactly this id, else of the only job whose id ends with it. A text that matches no job is
 * returned as it is, and the command reports it. Several matches are a usage error that names the candidates.
 */
export const fullId = async (client: Client, given: string): Promise<string> => {
  if (GENERATED.test(given)) return given
  // Tables print an ellipsis before the ending.
  const ending = given.replace(/^…/, "")
  if (ending.length < MIN_ENDING || (await exists(client, given))) return given
  const found = await search(client, ending)
  if (found.length <= 1) return found[0]?.id ?? given
  const shown = found.slice(0, MAX_NAMED).map(({ id, name }) => `${id} (${name})`)
  const more = found.length > MAX_NAMED ? ` and ${found.length - MAX_NAMED} more` : ""
  return wrongUsage(`${given} is the end of several ids: ${shown.join(", ")}${more}; use more characters of the id`)
}

export const fullIds = (client: Client, given: ReadonlyArray<string>): Promise<ReadonlyArray<string>> =>
  Promise.all(given.map((id) => fullId(client, id)))

/** Whether a job has exactly this id. Also true where the lookup fails: the command will then report that failure. */
const exists = async (client: Client, id: string): Promise<boolean> => {
  try {
    await client.job(id).find()
    return true
  } catch (cause) {
    return !(cause instanceof CallboardError && cause.code === "not-found")
  }
}

/** A page of jobs; empty on a transport that cannot list jobs, where only whole ids work. */
const pageAfter = async (client: Client, after: string | undefined): Promise<JobPage> => {
  try {
    return await client.jobs({ limit: PAGE, ...compact({ after }) })
  } catch (cause) {
    if (cause instanceof TransportError && cause.reason === "unsupported") return { jobs: [] }
    throw cause
  }
}

interface Found {
  readonly id: string
  readonly name: string
}

const search = async (client: Client, ending: string): Promise<ReadonlyArray<Found>> => {
  // Unique by id, since a job that changes during the search may be on two pages.
  const found = new Map<string, Found>()
  let after: string | undefined
  for (let searched = 0; searched < MAX_SEARCHED; ) {
    const page = await pageAfter(client, after)
    for (const { id, name } of page.jobs) if (id.endsWith(ending)) found.set(id, { id, name })
    searched += page.jobs.length
    after = page.next
    if (after === undefined) break
  }
  return [...found.values()]
}
