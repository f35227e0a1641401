/**
 * The transport over AMQP 0-9-1 (RabbitMQ), with queues as Celery declares and uses them. RabbitMQ keeps neither
 * records nor due times: the option `records` of the URL names another transport that does.
 */
import type { QueuePlugin } from "../../runtime/transport/mod.ts"
import { AmqpDriver } from "./driver.ts"
import { loadAmqplib } from "./library.ts"
import { capabilitiesOf, settingsOf } from "./settings.ts"

export { celery } from "./celery.ts"
export { capabilitiesOf, settingsOf }

/** Opens `amqp:` and `amqps:` URLs. Needs the package `amqplib`. */
export const plugin: QueuePlugin = {
  schemes: ["amqp", "amqps"],
  connect: async (url, options) => {
    const settings = settingsOf(url, options)
    const { connect } = await loadAmqplib()
    return new AmqpDriver(connect, settings, options).start()
  },
}

export default plugin
