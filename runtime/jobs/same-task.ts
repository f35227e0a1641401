/**
 * Whether two submissions under one id are the same task. A job that has succeeded keeps a digest of its task for that.
 */
import { hash } from "node:crypto"
import type { JobPosting } from "../protocol/message.ts"
import type { JobRecord } from "../protocol/record.ts"

/** Identifies the body of a task: the first 96 bits of its SHA-256. */
export const digestOf = (body: Uint8Array): string => hash("sha256", body, "base64url").slice(0, 16)

/** Whether a posting has the task, method and body of a record's job. A record without task and digest is of an older version. */
export const isSameTask = (record: JobRecord, { message }: Pick<JobPosting, "message">): boolean => {
  const { task, meth = null } = message.headers
  if (record.task !== task || record.meth !== meth) return false
  // The task of a chord's body has changed since it was submitted: it has got the results of the members.
  if (record.chord !== undefined && !record.chord.waiting) return true
  const digest = record.digest ?? (record.message === undefined ? undefined : digestOf(record.message.body))
  return digest === undefined || digest === digestOf(message.body)
}
