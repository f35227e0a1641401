/**
 * Performs the calls of an isolated handler that need the worker's transport: submits and follows jobs, with the
 * handler's job as parent.
 */
import * as Result from "effect/Result"
import type { Client } from "../../client/client.ts"
import { CallboardError } from "../../errors.ts"
import type { SubmissionFields } from "../../jobs/submission/submission.ts"
import { parseJson } from "../../protocol/codec/json.ts"
import type { StepEntry } from "../../steps/page.ts"
import { TransportError } from "../../transport/errors.ts"
import type { JobContext } from "../attempt/job-context.ts"
import type { StepSession } from "../attempt/step-session.ts"
import type { ProcessMessage, ProcessRequest } from "./messages.ts"

type WorkerCall = Extract<ProcessMessage, { readonly kind: "ask" }>
type CallFailure = NonNullable<Extract<ProcessRequest, { readonly kind: "answer" }>["refused"]>

/** Resolves with the result of the call; fails with the client's error. */
export const performCall = async (
  question: WorkerCall,
  job: JobContext,
  client: Client,
  signal: AbortSignal,
): Promise<unknown> => {
  const { what, about } = question
  const fields = fieldsOf(question.fields)
  const handle = client.job(about)
  switch (what) {
    case "submit":
      // The submission validates the fields with its own schema.
      return (await job.submit(about, fields as SubmissionFields)).id
    case "parent":
      return job.parent()
    case "steps":
      return performStep(about, question.fields ?? "null", job.session)
    case "outcome": {
      const { timeout } = fields
      const timed = typeof timeout === "number" || typeof timeout === "string" ? { timeout } : {}
      return handle.outcome({ signal, ...timed })
    }
    case "find":
      return handle.find()
    case "cancel":
      return handle.cancel({ terminate: fields["terminate"] === true })
    case "results": {
      const { wait } = fields
      return handle.results({ signal, ...(typeof wait === "number" || typeof wait === "string" ? { wait } : {}) })
    }
    case "patchMeta":
      return handle.patchMeta(fields)
    case "retry":
      return handle.retry(fields["from"] === "start" ? { from: "start" } : {})
    case "delete":
      return handle.delete()
  }
}

/** What the steps of an isolated handler ask for: see `StepPort`. The child writes the entries, and reads them again. */
const performStep = async (what: string, fields: string, session: StepSession): Promise<unknown> => {
  switch (what) {
    case "open": {
      const { entries, bytes } = await session.open()
      await session.doubt()
      return { entries, bytes }
    }
    case "note":
      try {
        const bytes = await session.note(JSON.parse(fields) as StepEntry)
        await session.doubt()
        return bytes
      } catch (cause) {
        if (cause instanceof TransportError && cause.reason === "too-large")
          throw new CallboardError("too-large", cause.message)
        throw cause
      }
    case "value":
      return session.value(JSON.parse(fields) as string)
    case "mark":
      return session.markReverts()
    case "heed":
      return session.checkCancelled()
    case "left":
      return session.returned()
    case "began": {
      const { name, state } = JSON.parse(fields) as { readonly name: string; readonly state: "started" | "reverting" }
      return session.began(name, state)
    }
    default:
      return session.finished()
  }
}

const fieldsOf = (text: string | undefined): Readonly<Record<string, unknown>> => {
  if (text === undefined) return {}
  const parsed = parseJson(text)
  if (Result.isFailure(parsed)) throw new CallboardError("invalid-input", parsed.failure.message)
  return typeof parsed.success === "object" && parsed.success !== null ? { ...parsed.success } : {}
}

/** Describes the error of a call, so that the process can rebuild it. */
export const callFailureOf = (cause: unknown): CallFailure => {
  if (!(cause instanceof Error)) return { name: "Error", message: String(cause) }
  const { name, message } = cause
  if (cause instanceof CallboardError) {
    const { field, id } = cause.details
    return {
      name,
      message,
      code: cause.code,
      ...(field === undefined ? {} : { field }),
      ...(id === undefined ? {} : { id }),
    }
  }
  return { name, message, ...("id" in cause && typeof cause.id === "string" ? { id: cause.id } : {}) }
}
