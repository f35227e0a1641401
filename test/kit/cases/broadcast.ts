/** News: to everyone who listens now. */
import { Buffer } from "node:buffer"
import { type Case, part } from "../case.ts"
import { equal, refuses } from "../check.ts"
import { type Context, sleep } from "../context.ts"
import type { Peer } from "../peer.ts"
import { present } from "../peer.ts"

const group = "broadcast"
const needs = [part("broadcast")]

const listen = async (
  { within }: Context,
  peer: Peer,
  topic: string,
  signal: AbortSignal = new AbortController().signal,
): Promise<ReadonlyArray<string>> => {
  const heard: Array<string> = []
  const { broadcast } = peer.transport
  const note = (payload: Uint8Array): void => void heard.push(Buffer.from(payload).toString("latin1"))
  await within(`listening to ${topic}`, present(broadcast, "broadcast").listen(topic, note, signal))
  return heard
}

const send = ({ within }: Context, peer: Peer, topic: string, payload: string): Promise<void> =>
  within(
    `sending to ${topic}`,
    present(peer.transport.broadcast, "broadcast").send(topic, Buffer.from(payload, "latin1")),
  )

export const broadcastCases: ReadonlyArray<Case> = [
  {
    group,
    name: "news reach everyone who listens, the sender included, byte for byte",
    needs,
    async run(context) {
      const { peer, elsewhere, until } = context
      const other = await elsewhere()
      const lists = [
        await listen(context, peer, "news"),
        await listen(context, peer, "news"),
        await listen(context, other, "news"),
      ]
      const payload = String.fromCharCode(...Array.from({ length: 256 }, (_, at) => at))
      await send(context, peer, "news", payload)
      await send(context, other, "news", "")
      await until("both news, for all three", async () => lists.every((heard) => heard.length >= 2))
      for (const heard of lists) equal([...heard].sort(), ["", payload].sort(), "what was heard")
    },
  },
  {
    group,
    name: "topics are apart, and taken literally",
    needs,
    async run(context) {
      const { peer, until } = context
      const topics = ["a", "a.b", "a.c", "a..b", "a.", ".a", "-", "a-b", "0", "x".repeat(128)]
      const lists = new Map<string, ReadonlyArray<string>>()
      for (const topic of topics) lists.set(topic, await listen(context, peer, topic))
      for (const topic of topics) await send(context, peer, topic, topic)
      await until("news on each topic", async () => [...lists.values()].every((heard) => heard.length > 0))
      for (const [topic, heard] of lists) equal(heard, [topic], `what was heard on ${topic}`)
    },
  },
  {
    group,
    name: "a topic outside of its alphabet is refused as invalid",
    needs,
    async run({ peer, within }) {
      const broadcast = present(peer.transport.broadcast, "broadcast")
      for (const topic of ["", "*", "a.>", "A", "a b", "ü", "x".repeat(129)]) {
        await within("a refusal", refuses(broadcast.send(topic, new Uint8Array(0)), "invalid", `sending to "${topic}"`))
        const listening = broadcast.listen(topic, () => undefined, new AbortController().signal)
        await within("a refusal", refuses(listening, "invalid", `listening to "${topic}"`))
      }
    },
  },
  {
    group,
    name: "listening ends with its signal",
    needs,
    async run(context) {
      const { peer, until } = context
      const stop = new AbortController()
      const [ended, live] = [await listen(context, peer, "news", stop.signal), await listen(context, peer, "news")]
      stop.abort()
      await sleep(50)
      await send(context, peer, "news", "late")
      await until("news, for who still listens", async () => live.length > 0)
      equal(ended, [], "what was heard after the signal")
    },
  },
  {
    group,
    name: "namespaces are apart",
    needs,
    async run(context) {
      const { peer, another, namespace, until, harness } = context
      const other = await another(`${namespace}-2`)
      const [here, there] = [await listen(context, peer, "news"), await listen(context, other, "news")]
      await send(context, peer, "news", "here")
      await send(context, other, "news", "there")
      await until("news in both namespaces", async () => here.length > 0 && there.length > 0)
      equal([here, there], [["here"], ["there"]], "what was heard")
      await harness.clean?.(`${namespace}-2`)
    },
  },
]
