/** News on core NATS: to whoever listens now, kept nowhere. */
import { TransportError } from "../../../runtime/transport/mod.ts"
import type { Broadcast } from "../../../runtime/transport/optional.ts"
import type { Link } from "../connection/link.ts"
import type { Names } from "../streams/names.ts"
import type { Subscriptions } from "./subscriptions.ts"

const TOPIC = /^[a-z0-9.-]{1,128}$/

const checked = (topic: string): string => {
  if (TOPIC.test(topic)) return topic
  throw new TransportError("invalid", `not a topic: ${JSON.stringify(topic.slice(0, 128))}`)
}

export const makeBroadcast = (link: Link, names: Names, subscriptions: Subscriptions): Broadcast => ({
  send: async (topic, payload) => {
    const subject = names.topic(checked(topic))
    await link.ready()
    link.send(subject, payload)
  },
  listen: (topic, listener, signal) =>
    subscriptions.listen(names.topic(checked(topic)), (message) => listener(message.data.slice()), signal),
})
