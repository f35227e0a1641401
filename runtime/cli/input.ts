/** Reads values of the command line: JSON, `@file` with JSON, `-` for standard input, and answers to questions. */
import { readFile } from "node:fs/promises"
import { createInterface } from "node:readline"
import { visible } from "../log/log-value.ts"
import { wrongUsage } from "./failure.ts"

const readAll = async (stream: NodeJS.ReadStream): Promise<string> => {
  const chunks: Array<Uint8Array> = []
  for await (const chunk of stream) chunks.push(typeof chunk === "string" ? Buffer.from(chunk) : chunk)
  return Buffer.concat(chunks).toString("utf8")
}

const textOf = (given: string): Promise<string> => {
  if (given === "-") return readAll(process.stdin)
  if (!given.startsWith("@")) return Promise.resolve(given)
  const path = given.slice(1)
  return readFile(path, "utf8").catch((cause: unknown) =>
    wrongUsage(`${path} cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`),
  )
}

/** Reads a JSON value. `what` names it in the error. */
export const jsonOf = async (what: string, given: string): Promise<unknown> => {
  const text = await textOf(given)
  try {
    return JSON.parse(text)
  } catch (cause) {
    const where = given === "-" ? " from standard input" : given.startsWith("@") ? ` in ${given.slice(1)}` : ""
    const why = cause instanceof Error ? cause.message : String(cause)
    const hint = where === "" && /^[\w.-]+$/.test(given) ? `; a text needs quotes: '"${given}"'` : ""
    return wrongUsage(`${what}${where} is not JSON: ${why}${hint}`)
  }
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
    else args.push(text.startsWith("@") ? await textOf(text) : text)
  }
  return { args, kwargs }
}

/** Reads a JSON object. */
export const objectOf = async (what: string, given: string): Promise<Readonly<Record<string, unknown>>> => {
  const value = await jsonOf(what, given)
  return isObject(value) ? value : wrongUsage(`${what} must be a JSON object`)
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

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
