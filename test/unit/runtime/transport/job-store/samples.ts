/** Tasks, records and attempts as small as they can be. */
import type { JobPosting, Message } from "../../../../../runtime/protocol/message.ts"
import type { JobRecord } from "../../../../../runtime/protocol/record.ts"
import { type DeliveryToken, orderOf } from "../../../../../runtime/transport/job-store/attempt.ts"

export const message = (headers: Record<string, unknown> = {}, own: Record<string, unknown> = {}): Message => ({
  headers: { task: "text", id: "j", root_id: "j", retries: 0, ...headers, callboard: { submittedAt: 5, ...own } },
  properties: { content_type: "application/json", content_encoding: "utf-8", priority: 4 },
  body: new TextEncoder().encode("[[],{},{}]"),
})

export const posting = (run = 1, retries = 0, hops = 0, id = "j"): JobPosting => ({
  id,
  run,
  retries,
  ...(hops === 0 ? {} : { hops }),
  queue: "q",
  level: 4,
  message: message({ id, retries }, { run, ...(hops === 0 ? {} : { hops }) }),
})

export const record = (fields: Partial<JobRecord> = {}): JobRecord => ({
  id: "j",
  task: "text",
  meth: null,
  name: "text",
  queue: "q",
  priority: 4,
  state: "started",
  run: 1,
  attempt: 1,
  retries: 0,
  fence: "",
  submittedAt: 5,
  timeline: [{ n: 1, run: 1, at: 5, state: "queued" }],
  ...fields,
})

/** The attempt of a posting, by the number of its delivery. */
export const attempt = (delivery: number, of: JobPosting = posting(), token = `t${delivery}`): DeliveryToken => ({
  id: of.id,
  fence: `${orderOf(of)}.00${delivery}.${token}`,
  order: orderOf(of),
  fresh: false,
  first: true,
  external: false,
  token,
})
