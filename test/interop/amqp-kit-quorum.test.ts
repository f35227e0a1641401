/** The conformance kit over quorum queues. */
import { registerAmqp } from "./amqp-kit.ts"

registerAmqp({ name: "quorum", query: "queue-type=quorum", losesPlaces: true, restarts: false })
