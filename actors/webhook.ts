/**
 * Outgoing webhooks, signed as https://www.standardwebhooks.com says, delivered again until the other side has them.
 *
 * ```sh
 * export WEBHOOK_SECRET="whsec_$(openssl rand -base64 24)"
 * curl localhost:7420/v1/jobs -H 'content-type: application/json' \
 *   -d '{"task": "webhook.send", "input": {"url": "https://example.com/hooks", "type": "invoice.paid", "data": {"id": 7}}}'
 * ```
 *
 * `webhook.notify` tells an endpoint how a job ended; `GET` has no body, `POST` the JSON of RQ's webhooks (`job_id`,
 * `func_name`, `status`, `enqueued_at`, `ended_at` and, of a failure, `exc_info`). It is a callback and an errback:
 *
 * ```ts
 * await client.submit("orders.total", {
 *   callbacks: [{ task: "webhook.notify", immutable: true, input: { url, method: "GET" } }],
 *   errbacks: [{ task: "webhook.notify", immutable: true, input: { url, method: "POST" } }],
 * })
 * ```
 *
 * A failed notification does not change the job that it is about. The record of that job must be kept until it is sent.
 *
 * Needs `npm install standardwebhooks ipaddr.js valibot`. Secrets never travel in a task, which is stored and shown: they
 * are `webhookActor({ secrets })`, else the environment's `WEBHOOK_SECRET`. Several, separated by spaces, sign side by side
 * while one replaces the other. A notification is signed where there is a secret.
 *
 * The message id is the job's own and stays the same over all attempts, so that the other side can drop what it has. A
 * busy or failing endpoint (408, 425, 429, 5xx), a network error and a timeout are tried again, after `Retry-After` where
 * it is given; every other answer ends the job, redirects too. Only public addresses are spoken to: others need
 * `webhookActor({ allow })`, else `WEBHOOK_ALLOW` (networks, separated by commas: `127.0.0.0/8,10.1.0.0/16`).
 *
 * Fails with `EndpointBusy`, `EndpointUnreachable`, `EndpointTimeout` (all retried), `EndpointRefused`,
 * `EndpointRedirected`, `AddressRefused`, `NoSecret`, `NoEndedJob` (the job to tell of is not kept).
 */

import { actor, type Job, type JobView } from "callboard"
import { Webhook } from "standardwebhooks"
import * as v from "valibot"
import { type AddressGuard, addressGuard } from "./webhook/address.ts"
import { EndpointBusy, request, retryAfter, throwForStatus } from "./webhook/request.ts"

export interface WebhookOptions {
  /** Secrets (`whsec_…`) by the name that tasks say; several of one name sign side by side. */
  readonly secrets?: Readonly<Record<string, string | ReadonlyArray<string>>>
  /** Networks to which webhooks are sent although they are not public, such as `10.1.0.0/16`. */
  readonly allow?: ReadonlyArray<string>
}

/** No secret of this name is configured, and an unsigned webhook could not be trusted. */
export class NoSecret extends Error {
  readonly _tag = "NoSecret"
  override readonly name = "NoSecret"
}

const isHttp = (text: string): boolean => {
  if (!URL.canParse(text)) return false
  const { protocol, username, password } = new URL(text)
  return (protocol === "https:" || protocol === "http:") && username === "" && password === ""
}

const Url = v.pipe(
  v.string(),
  v.maxLength(2_048),
  v.url(),
  v.check(isHttp, "must be an http or https URL without user and password"),
)

const SendInput = v.strictObject({
  url: Url,
  type: v.pipe(v.string(), v.regex(/^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$/, "must be words joined by dots: invoice.paid")),
  data: v.record(v.string(), v.unknown()),
  /** When it happened. Defaults to the time of the attempt. */
  timestamp: v.optional(v.pipe(v.string(), v.isoTimestamp())),
  /** Name of the secret to sign with. */
  secret: v.optional(v.string(), "default"),
})

const NotifyInput = v.strictObject({
  url: Url,
  method: v.optional(v.picklist(["GET", "POST"]), "POST"),
  /** Name of the secret to sign with. Defaults to `default`, and to no signature where that is not configured. */
  secret: v.optional(v.string()),
})

const Sent = v.object({ id: v.string(), status: v.number(), milliseconds: v.number() })

const DELIVERY = {
  timeLimit: { soft: "20 seconds", hard: "30 seconds" },
  // Ten attempts within two days.
  retry: {
    max: 9,
    backoff: { base: "10 seconds", factor: 4, max: "12 hours" },
    on: ["EndpointBusy", "EndpointUnreachable", "EndpointTimeout"],
  },
} as const

interface Use {
  readonly signers: ReadonlyMap<string, ReadonlyArray<Webhook>>
  readonly guard: AddressGuard
}

export const webhookActor = (options: WebhookOptions = {}) =>
  actor("webhook", {
    description: "Outgoing webhooks, signed, and retried until they are delivered",
    start: (): Use => ({
      signers: signersOf(options.secrets ?? { default: words(process.env["WEBHOOK_SECRET"], /\s+/) }),
      guard: addressGuard(options.allow ?? words(process.env["WEBHOOK_ALLOW"], /[\s,]+/)),
    }),
    methods: {
      send: {
        description: "Sends one event to one endpoint",
        input: SendInput,
        output: Sent,
        ...DELIVERY,
        redact: ["data"],
        run: async ({ url, type, data, timestamp, secret }, job) => {
          const signers = signersFor(secret, job.use)
          const at = new Date()
          const body = JSON.stringify({ type, timestamp: timestamp ?? at.toISOString(), data })
          return deliver({ url, method: "POST", body, at, signers }, job)
        },
      },
      notify: {
        description: "Notifies an endpoint how a job ended; use it as a callback or an errback",
        input: NotifyInput,
        output: Sent,
        ...DELIVERY,
        // It asks the transport for the record of the job.
        retry: { ...DELIVERY.retry, on: [...DELIVERY.retry.on, "TransportError"] },
        run: async ({ url, method, secret }, job) => {
          const signers = secret === undefined ? (job.use.signers.get("default") ?? []) : signersFor(secret, job.use)
          const body = method === "GET" ? "" : JSON.stringify(await endedParent(job))
          return deliver({ url, method, body, at: new Date(), signers }, job)
        },
      },
    },
  })

export default webhookActor()

const signersFor = (secret: string, { signers }: Use): ReadonlyArray<Webhook> => {
  const found = signers.get(secret)
  if (found === undefined) throw new NoSecret(`no secret ${secret} is configured; set WEBHOOK_SECRET`)
  return found
}

interface Delivery {
  readonly url: string
  readonly method: "GET" | "POST"
  /** JSON, or nothing. */
  readonly body: string
  readonly at: Date
  /** None: it is not signed. */
  readonly signers: ReadonlyArray<Webhook>
}

const deliver = async (
  { url, method, body, at, signers }: Delivery,
  job: Job<Use>,
): Promise<v.InferOutput<typeof Sent>> => {
  const { status, headers } = await request(new URL(url), {
    method,
    headers: {
      ...(body === "" ? {} : { "content-type": "application/json" }),
      "user-agent": "callboard-webhook",
      "webhook-id": job.id,
      "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
      ...(signers.length === 0
        ? {}
        : { "webhook-signature": signers.map((signer) => signer.sign(job.id, at, body)).join(" ") }),
    },
    body,
    guard: job.use.guard,
    signal: job.signal,
  })
  try {
    throwForStatus(status, headers)
  } catch (cause) {
    const after = cause instanceof EndpointBusy ? retryAfter(headers["retry-after"], Date.now()) : undefined
    throw after === undefined ? cause : job.retry({ after, cause })
  }
  return { id: job.id, status, milliseconds: Date.now() - at.getTime() }
}

const words = (text: string | undefined, separator: RegExp): ReadonlyArray<string> =>
  (text ?? "").split(separator).filter((word) => word !== "")

/** Reads the secrets when the worker starts, so that a wrong one is reported then and not with the first event. */
const signersOf = (secrets: NonNullable<WebhookOptions["secrets"]>): ReadonlyMap<string, ReadonlyArray<Webhook>> => {
  const signers = new Map<string, ReadonlyArray<Webhook>>()
  for (const [name, given] of Object.entries(secrets)) {
    const several = typeof given === "string" ? [given] : given
    if (several.length > 0)
      signers.set(
        name,
        several.map((secret) => signerOf(name, secret)),
      )
  }
  return signers
}

const signerOf = (name: string, secret: string): Webhook => {
  try {
    return new Webhook(secret)
  } catch (cause) {
    throw new Error(`the secret ${name} is not base64 after whsec_`, { cause })
  }
}

/** The job to notify about has no record any more, or has not ended. */
export class NoEndedJob extends Error {
  readonly _tag = "NoEndedJob"
  override readonly name = "NoEndedJob"
}

export interface EndedJob {
  readonly job_id: string
  /** Actor and method, joined by a dot; the actor alone for its default method. */
  readonly func_name: string
  readonly status: "finished" | "failed"
  /** ISO 8601 in UTC. */
  readonly enqueued_at: string
  readonly ended_at: string
  /** For a failed job: the traceback, else name and message of the error. */
  readonly exc_info?: string
}

/** The notification about the job that this one follows. Fails with {@link NoEndedJob}. */
const endedParent = async (job: Job): Promise<EndedJob> => {
  const { parentId } = job
  if (parentId === undefined) {
    throw new NoEndedJob("it follows no job; make it a callback or an errback of the job to report, or set parentId")
  }
  const parent = await job.parent()
  if (parent === undefined) {
    throw new NoEndedJob(`job ${parentId} is no longer kept; give it a longer resultTtl or failureTtl`)
  }
  return endedJob(parent)
}

const endedJob = ({ id, task, meth, state, times, error }: JobView): EndedJob => {
  const status = state === "succeeded" ? "finished" : state === "failed" ? "failed" : undefined
  if (status === undefined || times.ended === undefined) {
    throw new NoEndedJob(`job ${id} is ${state}, neither succeeded nor failed; was it run again?`)
  }
  return {
    job_id: id,
    func_name: meth === null ? task : `${task}.${meth}`,
    status,
    enqueued_at: times.submitted,
    ended_at: times.ended,
    ...(status === "failed" ? { exc_info: error?.traceback ?? `${error?.name}: ${error?.message}` } : {}),
  }
}
