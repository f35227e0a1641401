/** Sends signals to jobs, and lets jobs that wait for them continue. */
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { refuseInput } from "../../options/refuse.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { byteLength, isUnfitForName } from "../../protocol/text.ts"
import { isAwaited, isSuspended, withSignal } from "../../protocol/waits.ts"
import type { Decision } from "../../transport/job-store/transport.ts"
import { startedNow } from "../outcome/run-now.ts"
import type { SignalRequest } from "../signal-request.ts"
import { goneError } from "../tracking/finding.ts"
import { decide } from "./decide.ts"

/** Most bytes of the name, and of the key, of a signal. */
const MAX_NAME_BYTES = 128
/** Most characters of JSON of a signal. */
const MAX_VALUE = 64 * 1024
/** Most signals of a job that its handler has not taken, and most characters of JSON of all of them. */
const MAX_SIGNALS = 100
const MAX_ALL = 256 * 1024

/**
 * Sends a value to a job, for `job.waitFor` in its handler. A job that waits for it continues by the same change, so that no
 * signal is lost in between. Fails with `invalid-input`, `not-found`, `gone`, `already-terminal` and `too-large`.
 */
export const signalJob = async (
  connection: Connection,
  id: string,
  { name, value = null, key }: SignalRequest,
): Promise<JobRecord> => {
  checkText("name", name)
  if (key !== undefined) checkText("key", key)
  checkSize(value, id)
  return decide(connection, id, ({ record }) => {
    if (record.tombstone) throw goneError(id)
    if (isTerminal(record.state))
      throw new CallboardError(
        "already-terminal",
        `job ${id} has already ended (${record.state}) and takes no signal`,
        { id },
      )
    const now = Date.now()
    const sent = withSignal(record, { name, value, at: now, ...(key === undefined ? {} : { key }) })
    // A client that sent it before may have died before the job was posted.
    if (sent === undefined) return postedAgain(record)
    checkRoom(id, sent.signals)
    const next = { ...record, ...sent }
    const isWanted = isSuspended(record) && record.waits !== undefined && isAwaited(record.waits, [{ name }])
    return (isWanted ? startedNow(next, now, "signalled") : undefined) ?? { record: next }
  })
}

const checkText = (field: "name" | "key", text: string): void => {
  const isText = typeof text === "string" && text !== "" && byteLength(text) <= MAX_NAME_BYTES && !isUnfitForName(text)
  // The name is a part of an address, which is written without dots alone.
  const isKept = isText && !(field === "name" && /^\.\.?$/.test(text))
  const rule = `must be well-formed text of 1 to ${MAX_NAME_BYTES} bytes without control characters`
  if (!isKept) refuseInput(field, field === "name" ? `${rule}, and not . or ..` : rule)
}

const checkSize = (value: unknown, id: string): void => {
  const { length } = JSON.stringify(value)
  if (length <= MAX_VALUE) return
  const message = `value: has ${length} characters of JSON; a signal has ${MAX_VALUE} at most`
  throw new CallboardError("too-large", message, { field: "value", id })
}

const checkRoom = (id: string, signals: NonNullable<JobRecord["signals"]>): void => {
  const size = signals.reduce((sum, { value }) => sum + JSON.stringify(value).length, 0)
  if (signals.length <= MAX_SIGNALS && size <= MAX_ALL) return
  const why = `its handler has not taken ${signals.length - 1} signals yet`
  const rule = `a job keeps ${MAX_SIGNALS} of them, and ${MAX_ALL} characters of JSON, at most`
  throw new CallboardError("too-large", `job ${id} takes no further signal now: ${why}, and ${rule}`, { id })
}

/** The same change once more, for a job that continues and whose task may not be posted. */
const postedAgain = (record: JobRecord): Omit<Decision, "id" | "expect"> | undefined => {
  const { state, id, successor, followUps = [] } = record
  const own = followUps.filter((each) => each.id === id)
  return state === "queued" && successor !== undefined && own.length > 0 ? { record, post: own } : undefined
}
