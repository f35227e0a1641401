/**
 * The cause of a failure: the same for all jobs that failed alike, whichever order, customer or time their messages name.
 * Its fingerprint is kept in the record, so that jobs are found by it.
 */
import { createHash } from "node:crypto"
import { fileURLToPath } from "node:url"
import type { JobError } from "../../protocol/record.ts"
import { beginning, cut } from "../../protocol/text.ts"
import { ownFrame } from "./job-error.ts"

/** Longest message that is looked at, and longest template, in characters. */
const MAX_MESSAGE = 1_000
const MAX_TEMPLATE = 300
const MAX_FRAME = 200

/** Quoted text, and words: an apostrophe within a word quotes nothing. */
const PARTS = /"[^"\n]*"|'[^'\n]*'|`[^`\n]*`|[^\s"'`]+(?:'[^\s"'`]+)*/g
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi
const NUMBER = /\d+(?:[.,:]\d+)*/g
const WORD = /[a-z0-9]+/gi
const SCHEME = /^[^a-z]{0,8}[a-z][a-z0-9+.-]{0,20}:\/\//i

/** Length from which on a word that alternates letters and digits counts as an id. */
const MIN_ID = 8

const wordOf = (word: string): string => {
  if (/^\d+$/.test(word)) return word
  if (word.length < MIN_ID) return word
  const digits = word.match(/\d+/g)?.length ?? 0
  if (digits > 0 && /^(?:0x)?[0-9a-f]+$/i.test(word)) return "<hex>"
  return digits > 1 ? "<id>" : word
}

const partOf = (part: string): string => {
  const [first = ""] = part
  if (part.length > 1 && `"'\``.includes(first) && part.endsWith(first)) return "<text>"
  const at = part.indexOf("@")
  if (SCHEME.test(part)) return "<url>"
  if (at > 0 && part.indexOf(".", at + 2) > 0) return "<email>"
  return part.replaceAll(UUID, "<uuid>").replaceAll(WORD, wordOf).replaceAll(NUMBER, "<n>")
}

/** A message without what differs from job to job: `order <n> of <email> is not there`. */
export const templateOf = (message: string): string =>
  cut(
    beginning(message, MAX_MESSAGE)
      .replaceAll(PARTS, partOf)
      .replaceAll(/-(?=<n>)/g, "")
      .replaceAll(/\s+/g, " ")
      .trim(),
    MAX_TEMPLATE,
  )

/** Where a failure was thrown: function and file of the first own frame, without the line, which any change moves. */
export const frameOf = ({ traceback = "" }: Pick<JobError, "traceback">): string | undefined => {
  const line = ownFrame(traceback)?.trim().slice("at ".length, MAX_MESSAGE)
  if (line === undefined) return undefined
  const open = line.lastIndexOf("(")
  const [name, place] =
    open > 0 && line.endsWith(")") ? [line.slice(0, open - 1), line.slice(open + 1, -1)] : ["", line]
  const file = fileOf(place.replace(/(?::\d{1,9}){1,2}$/, ""))
  return cut(name === "" ? file : `${name} (${file})`, MAX_FRAME)
}

/** The folder in which the process was started. Where it has been removed since, no file counts as lying in it. */
const ROOT = (() => {
  try {
    return `${process.cwd()}/`
  } catch {
    return "(none)"
  }
})()

/** The path below the folder in which the process was started; of a file elsewhere its name, since folders differ from machine to machine. */
const fileOf = (place: string): string => {
  const path = place.startsWith("file://") ? pathOf(place) : place
  return path.startsWith(ROOT) ? path.slice(ROOT.length) : path.slice(path.lastIndexOf("/") + 1)
}

const pathOf = (url: string): string => {
  try {
    return fileURLToPath(url)
  } catch {
    return url
  }
}

/** 8 hexadecimal digits. */
export const fingerprintOf = (error: JobError): string =>
  createHash("sha256")
    .update(JSON.stringify([error.name, error.reason, templateOf(error.message), frameOf(error) ?? ""]))
    .digest("hex")
    .slice(0, 8)
