/** The settings in the URL of an AMQP server. */
import type { Options } from "amqplib"
import { checkUrlOptions } from "../../runtime/transport/checks.ts"
import { hash } from "../../runtime/transport/job-store/hash.ts"
import { type Capabilities, type ConnectOptions, TransportError } from "../../runtime/transport/mod.ts"

export interface AmqpSettings {
  readonly server: Options.Connect
  /**
   * Arguments with which new queues are declared. A queue that exists, perhaps declared by Celery, is used as it is.
   */
  readonly queueArguments: Readonly<Record<string, unknown>>
  /** Highest priority of the queues; 0 where they have no priorities. */
  readonly maxPriority: number
  /** Name of a queue on the server. */
  readonly nameOf: (queue: string) => string
}

/** The namespace whose queues have the names that a Celery application uses. */
const DEFAULT_NAMESPACE = "callboard"

/** Most bytes in the name of a queue. */
const LONGEST = 255

/**
 * How many of Callboard's heartbeats make one of AMQP's. After two of AMQP's without a sign the server drops a
 * connection; the driver itself checks it more often.
 */
const HEARTBEATS = 3

const invalid = (message: string): TransportError => new TransportError("invalid", `amqp: ${message}`)

/** Reads the settings. Fails with `invalid`. */
export const settingsOf = (
  url: URL,
  { namespace, heartbeat = 20_000 }: Pick<ConnectOptions, "namespace" | "heartbeat">,
): AmqpSettings => {
  checkUrlOptions(url, ["records", "queue-type", "max-priority"])
  const type = url.searchParams.get("queue-type") ?? "classic"
  if (type !== "classic" && type !== "quorum") throw invalid(`queue-type must be classic or quorum, not ${type}`)
  const given = url.searchParams.get("max-priority") ?? "0"
  const maxPriority = Number(given)
  if (!/^\d{1,3}$/.test(given) || maxPriority > 255) throw invalid(`max-priority must be 0 to 255, not ${given}`)
  if (type === "quorum" && maxPriority > 0) throw invalid("quorum queues have no priorities: leave out max-priority")
  const isPlain = url.username === "" && url.password === ""
  return {
    server: {
      protocol: url.protocol.slice(0, -1),
      hostname: url.hostname.replace(/^\[(.*)\]$/, "$1") || "localhost",
      ...(url.port === "" ? {} : { port: Number(url.port) }),
      ...(isPlain ? {} : { username: decodeURIComponent(url.username), password: decodeURIComponent(url.password) }),
      vhost: url.pathname.slice(1),
      heartbeat: Math.ceil((HEARTBEATS * heartbeat) / 1_000),
    },
    queueArguments: {
      ...(type === "quorum" ? { "x-queue-type": "quorum" } : {}),
      ...(maxPriority > 0 ? { "x-max-priority": maxPriority } : {}),
    },
    maxPriority,
    nameOf: (queue) => {
      const name = namespace === DEFAULT_NAMESPACE ? queue : `${namespace}.${queue}`
      // The server removes line ends from names.
      const isRefused = Buffer.byteLength(name) > LONGEST || /[\r\n]/.test(name)
      return isRefused ? `${namespace}..${hash(queue)}` : name
    },
  }
}

/** What queues with these settings can do: priorities and durability follow from the arguments of the queues. */
export const capabilitiesOf = ({ maxPriority, queueArguments }: Omit<AmqpSettings, "server">): Capabilities => ({
  durability: "x-queue-type" in queueArguments ? "quorum" : "fsync",
  reach: "network",
  atomic: false,
  waits: true,
  dedupeWindow: 0,
  delay: 0,
  bands: Math.min(10, maxPriority + 1),
  front: maxPriority >= 10,
  maxTask: 16 * 1024 * 1024,
  maxRecord: 0,
  leaseResolution: 500,
  dueResolution: 0,
  leases: "connection",
})
