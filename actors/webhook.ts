/**
 * Outgoing webhooks, signed as https://www.standardwebhooks.com says, delivered again until the other side has them.
 *
 * ```sh
 * export WEBHOOK_SECRET="whsec_$(openssl rand -base64 24)"
 * curl localhost:7420/v1/jobs -H 'content-type: application/json' \
 *   -d '{"task": "webhook.send", "input": {"url": "https://example.com/hooks", "type": "invoice.paid", "data": {"id": 7}}}'
 * ```
 *
 * Needs `npm install standardwebhooks ipaddr.js valibot`. Secrets never travel in a task, which is stored and shown: they
 * are `webhookActor({ secrets })`, else the environment's `WEBHOOK_SECRET`. Several, separated by spaces, sign side by side
 * while one replaces the other.
 *
 * The message id is the job's own and stays the same over all attempts, so that the other side can drop what it has. A
 * busy or failing endpoint (408, 425, 429, 5xx), a network error and a timeout are tried again, after `Retry-After` where
 * it is given; every other answer ends the job, redirects too. Only public addresses are spoken to: others need
 * `webhookActor({ allow })`, else `WEBHOOK_ALLOW` (networks, separated by commas: `127.0.0.0/8,10.1.0.0/16`).
 *
 * Fails with `EndpointBusy`, `EndpointUnreachable`, `EndpointTimeout` (all retried), `EndpointRefused`,
 * `EndpointRedirected`, `AddressRefused`, `NoSecret`.
 */
import { actor } from "callboard"
import { Webhook } from "standardwebhooks"
import * as v from "valibot"
import { addressGuard } from "./webhook/address.ts"
import { post } from "./webhook/post.ts"
import { EndpointBusy, retryAfter, throwForStatus } from "./webhook/verdict.ts"

export interface WebhookOptions {
  /** Secrets (`whsec_…`) by the name that tasks say; several of one name sign side by side. */
  readonly secrets?: Readonly<Record<string, string | ReadonlyArray<string>>>
  /** Networks that are spoken to although they are not public, as `10.1.0.0/16`. */
  readonly allow?: ReadonlyArray<string>
}

/** No secret of this name is configured: an unsigned message would be worth nothing. */
export class NoSecret extends Error {
  readonly _tag = "NoSecret"
  override readonly name = "NoSecret"
}

const isHttp = (text: string): boolean => {
  if (!URL.canParse(text)) return false
  const { protocol, username, password } = new URL(text)
  return (protocol === "https:" || protocol === "http:") && username === "" && password === ""
}

const SendInput = v.strictObject({
  url: v.pipe(
    v.string(),
    v.maxLength(2_048),
    v.url(),
    v.check(isHttp, "must be an http or https URL without user and password"),
  ),
  type: v.pipe(v.string(), v.regex(/^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$/, "must be words joined by dots: invoice.paid")),
  data: v.record(v.string(), v.unknown()),
  /** When it happened. Defaults to the time of the attempt. */
  timestamp: v.optional(v.pipe(v.string(), v.isoTimestamp())),
  /** Name of the secret to sign with. */
  secret: v.optional(v.string(), "default"),
})

const Sent = v.object({ id: v.string(), status: v.number(), milliseconds: v.number() })

export const webhookActor = (options: WebhookOptions = {}) =>
  actor("webhook", {
    description: "Outgoing webhooks, signed and delivered again until they arrive",
    start: () => ({
      signers: signersOf(options.secrets ?? { default: words(process.env["WEBHOOK_SECRET"], /\s+/) }),
      guard: addressGuard(options.allow ?? words(process.env["WEBHOOK_ALLOW"], /[\s,]+/)),
    }),
    methods: {
      send: {
        description: "Sends one event to one endpoint",
        input: SendInput,
        output: Sent,
        timeLimit: { soft: "20 seconds", hard: "30 seconds" },
        // Ten attempts within two days.
        retry: {
          max: 9,
          backoff: { base: "10 seconds", factor: 4, max: "12 hours" },
          on: ["EndpointBusy", "EndpointUnreachable", "EndpointTimeout"],
        },
        redact: ["data"],
        run: async ({ url, type, data, timestamp, secret }, job) => {
          const signers = job.use.signers.get(secret)
          if (signers === undefined) throw new NoSecret(`no secret ${secret} is configured; set WEBHOOK_SECRET`)
          const now = new Date()
          const body = JSON.stringify({ type, timestamp: timestamp ?? now.toISOString(), data })
          const { status, headers } = await post(new URL(url), {
            headers: {
              "content-type": "application/json",
              "user-agent": "callboard-webhook",
              "webhook-id": job.id,
              "webhook-timestamp": String(Math.floor(now.getTime() / 1000)),
              "webhook-signature": signers.map((signer) => signer.sign(job.id, now, body)).join(" "),
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
          return { id: job.id, status, milliseconds: Date.now() - now.getTime() }
        },
      },
    },
  })

export default webhookActor()

const words = (text: string | undefined, separator: RegExp): ReadonlyArray<string> =>
  (text ?? "").split(separator).filter((word) => word !== "")

/** Reads the secrets when the worker starts: a wrong one must not wait for the first event to be noticed. */
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
