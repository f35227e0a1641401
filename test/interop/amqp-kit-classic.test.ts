/** The conformance kit over classic queues, which are the default of RabbitMQ. */
import { registerAmqp } from "./amqp-kit.ts"

registerAmqp({ name: "classic", query: "max-priority=10", restarts: true })
