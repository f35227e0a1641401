/** What a handler says beside its progress, small enough to be stored with any record. */
import { cut } from "../../log/log-value.ts"

/** Longest detail that is kept as it is, in characters of its JSON. */
export const MAX_PROGRESS_DETAIL = 16 * 1024
const SHOWN = 1_024

/**
 * The detail as JSON text, taken now: what the handler changes later was not this progress. One that is too large is cut
 * to the beginning of its text, and says so: it must not decide what becomes of its job.
 */
export const progressDetail = (detail: unknown): string => {
  const text = JSON.stringify(detail) ?? "null"
  return text.length <= MAX_PROGRESS_DETAIL
    ? text
    : JSON.stringify(
        `${cut(text, SHOWN)} (cut: a detail may have ${MAX_PROGRESS_DETAIL} characters, and it had ${text.length})`,
      )
}
