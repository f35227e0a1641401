/** News of jobs and queues for listeners, and announcements to all connections. */

import { Buffer } from "node:buffer"
import type { News } from "../../../../runtime/transport/driver.ts"
import { freeLeases } from "../../case.ts"
import { check, equal, refuses } from "../../check.ts"
import { present } from "../../peer.ts"
import { type DriverCase, looks, part } from "../case.ts"
import { type DriverContext, sleep } from "../context.ts"
import type { DriverPeer } from "../peer.ts"
import { recordOf } from "../task.ts"

const group = "news"

const ofQueue =
  (queue: string) =>
  (news: News): boolean =>
    news.kind === "queue" && news.queue === queue

export const ofJob =
  (id: string) =>
  (news: News): boolean =>
    news.kind === "job" && news.id === id

export const newsCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "a task that is published, alone or by a commit, is told to those who listen to its queue",
    needs: [freeLeases],
    async run({ peer, fresh, task, elsewhere, until }) {
      const queue = fresh("queue")
      const heard = await (await elsewhere()).listen({ kind: "queues", queues: [fresh("other"), queue] })
      const count = () => heard.filter(ofQueue(queue)).length
      await peer.publish(task({ queue }))
      await until("news of a task that was published", async () => count() > 0)
      const before = count()
      await peer.end(await peer.one(queue), { post: [task({ queue })] })
      await until("news of a task that a commit posted", async () => count() > before)
    },
  },
  {
    group,
    name: "a task that is given back is told to those who listen to its queue",
    needs: [looks],
    async run({ peer, fresh, task, elsewhere, until }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      const delivery = await peer.one(queue)
      const heard = await (await elsewhere()).listen({ kind: "queues", queues: [queue] })
      // News of the task itself may be late.
      await until("silence", async () => {
        const before = heard.length
        await sleep(50)
        return heard.length === before
      })
      const before = heard.length
      await peer.release(delivery)
      await until("news of a task that was given back", async () => heard.slice(before).some(ofQueue(queue)))
    },
  },
  {
    group,
    name: "a record that is stored is told to those who listen to its job and to those who listen to all",
    async run({ peer, fresh, task, elsewhere, until }) {
      const other = await elsewhere()
      const posting = task({ queue: fresh("queue") })
      const neighbour = task({ queue: posting.queue })
      const [one, all] = [await other.listen({ kind: "job", id: posting.id }), await other.listen({ kind: "jobs" })]
      const records = [recordOf(posting, "started"), recordOf(posting, "failed")]
      let expect = ""
      for (const record of records) {
        const [before, beforeAll] = [one.filter(ofJob(posting.id)).length, all.filter(ofJob(posting.id)).length]
        expect = await peer.put(posting.id, { ...record, expect })
        await until("news of a job, for who listens to it", async () => one.filter(ofJob(posting.id)).length > before)
        await until(
          "news of a job, for who listens to all",
          async () => all.filter(ofJob(posting.id)).length > beforeAll,
        )
      }
      await peer.put(neighbour.id, recordOf(neighbour, "failed"))
      await until("news of another job, for who listens to all", async () => all.some(ofJob(neighbour.id)))
      for (const news of all) {
        if (news.kind !== "job" || news.id !== posting.id || news.record === undefined) continue
        const told = news.record
        check(
          records.some(({ bytes }) => Buffer.compare(bytes, told) === 0),
          "a record in news must be one that was stored",
        )
      }
    },
  },
  {
    group,
    name: "a task that is published is told to those who listen to its job",
    async run({ peer, fresh, task, elsewhere, until }) {
      const posting = task({ queue: fresh("queue") })
      const heard = await (await elsewhere()).listen({ kind: "job", id: posting.id })
      await peer.publish(posting)
      await until("news of a job that was published", async () => heard.some(ofJob(posting.id)))
    },
  },
  {
    group,
    name: "a large record is told like a small one",
    async run({ peer, fresh, task, elsewhere, until, harness }) {
      const posting = task({ queue: fresh("queue") })
      const heard = await (await elsewhere()).listen({ kind: "job", id: posting.id })
      const bytes = new Uint8Array(Math.min(harness.capabilities.maxRecord, 600_000))
      await peer.put(posting.id, recordOf(posting, "failed", { bytes }))
      await until("news of a large record", async () => heard.some(ofJob(posting.id)))
    },
  },
  {
    group,
    name: "a read or take that begins after the news sees what they are about",
    needs: [freeLeases],
    async run({ peer, fresh, task, elsewhere, within }) {
      const other = await elsewhere()
      const queue = fresh("queue")
      const { signal } = new AbortController()
      let onNews: (news: News) => void = () => undefined
      const listener = (news: News): void => onNews(news)
      await within("listening", other.driver.listen({ kind: "queues", queues: [queue] }, listener, signal))
      await within("listening", other.driver.listen({ kind: "jobs" }, listener, signal))
      for (let round = 0; round < 20; round++) {
        const posting = task({ queue })
        // The first news of a task is answered by a take, the first of a record by a read.
        const taken = new Promise<number>((resolve, reject) => {
          onNews = (news) => {
            if (!ofQueue(queue)(news)) return
            onNews = () => undefined
            other.ask(queue).then(({ deliveries }) => resolve(deliveries.length), reject)
          }
        })
        await peer.publish(posting)
        equal(await within("news of a queue", taken), 1, `tasks that come after the news of round ${round}`)
        const { id } = task({ queue })
        const stored = new Promise<boolean>((resolve, reject) => {
          onNews = (news) => {
            if (!ofJob(id)(news)) return
            onNews = () => undefined
            other.read(id, "record").then((known) => resolve(known?.record !== undefined), reject)
          }
        })
        await peer.put(id, recordOf(posting, "started"))
        check(await within("news of a job", stored), `the record must be seen after the news of round ${round}`)
      }
    },
  },
  {
    group,
    name: "listening ends with its signal, and a signal that has fired hears nothing",
    async run({ peer, fresh, task, until }) {
      const queue = fresh("queue")
      const stop = new AbortController()
      const ended = await peer.listen({ kind: "jobs" }, stop.signal)
      const fired = await peer.listen({ kind: "jobs" }, AbortSignal.abort())
      const live = await peer.listen({ kind: "jobs" })
      stop.abort()
      await sleep(50)
      const before = ended.length
      const posting = task({ queue })
      await peer.put(posting.id, recordOf(posting, "failed"))
      await until("news, for who still listens", async () => live.some(ofJob(posting.id)))
      equal([ended.length, fired.length], [before, 0], "news heard after the signals")
    },
  },
]

const needs = [part("broadcast")]
const broadcast = "broadcast"

export const hear = async (
  { within }: DriverContext,
  { driver }: DriverPeer,
  topic: string,
  signal: AbortSignal = new AbortController().signal,
): Promise<ReadonlyArray<string>> => {
  const heard: Array<string> = []
  const note = (payload: Uint8Array): void => void heard.push(Buffer.from(payload).toString("latin1"))
  await within(`listening to ${topic}`, present(driver.broadcast, broadcast).listen(topic, note, signal))
  return heard
}

const send = ({ within }: DriverContext, { driver }: DriverPeer, topic: string, payload: string): Promise<void> =>
  within(`sending to ${topic}`, present(driver.broadcast, broadcast).send(topic, Buffer.from(payload, "latin1")))

export const broadcastCases: ReadonlyArray<DriverCase> = [
  {
    group: broadcast,
    name: "announcements reach everyone who listens, the sender included, byte for byte",
    needs,
    async run(context) {
      const { peer, elsewhere, until } = context
      const other = await elsewhere()
      const lists = [
        await hear(context, peer, "news"),
        await hear(context, peer, "news"),
        await hear(context, other, "news"),
      ]
      const payload = String.fromCharCode(...Array.from({ length: 256 }, (_, at) => at))
      await send(context, peer, "news", payload)
      await send(context, other, "news", "")
      await until("both announcements, for all three", async () => lists.every((heard) => heard.length >= 2))
      for (const heard of lists) equal([...heard].sort(), ["", payload].sort(), "what was heard")
    },
  },
  {
    group: broadcast,
    name: "announcements of 66 KiB are carried",
    needs,
    async run(context) {
      const { peer, elsewhere, until } = context
      const heard = await hear(context, await elsewhere(), "news")
      const payload = "x".repeat(66 * 1024)
      await send(context, peer, "news", payload)
      await until("an announcement of 66 KiB", async () => heard.length > 0)
      check(heard[0] === payload, `it must come whole, ${heard[0]?.length} bytes came`)
    },
  },
  {
    group: broadcast,
    name: "topics are apart, and taken literally",
    needs,
    async run(context) {
      const { peer, until } = context
      const topics = ["a", "a.b", "a.c", "a..b", "a.", ".a", "-", "a-b", "0", "x".repeat(128)]
      const lists = new Map<string, ReadonlyArray<string>>()
      for (const topic of topics) lists.set(topic, await hear(context, peer, topic))
      for (const topic of topics) await send(context, peer, topic, topic)
      await until("announcements on each topic", async () => [...lists.values()].every((heard) => heard.length > 0))
      for (const [topic, heard] of lists) equal(heard, [topic], `what was heard on ${topic}`)
    },
  },
  {
    group: broadcast,
    name: "a topic outside of its alphabet is refused as invalid",
    needs,
    async run({ peer, within }) {
      const channel = present(peer.driver.broadcast, broadcast)
      for (const topic of ["", "*", "a.>", "A", "a b", "ü", "x".repeat(129)]) {
        await within("a refusal", refuses(channel.send(topic, new Uint8Array(0)), "invalid", `sending to "${topic}"`))
        const listening = channel.listen(topic, () => undefined, new AbortController().signal)
        await within("a refusal", refuses(listening, "invalid", `listening to "${topic}"`))
      }
    },
  },
  {
    group: broadcast,
    name: "listening to announcements ends with its signal",
    needs,
    async run(context) {
      const { peer, until } = context
      const stop = new AbortController()
      const [ended, live] = [await hear(context, peer, "news", stop.signal), await hear(context, peer, "news")]
      stop.abort()
      await sleep(50)
      await send(context, peer, "news", "late")
      await until("an announcement, for who still listens", async () => live.length > 0)
      equal(ended, [], "what was heard after the signal")
    },
  },
  {
    group: broadcast,
    name: "namespaces are apart",
    needs,
    async run(context) {
      const { peer, another, namespace, until, harness } = context
      const other = await another(`${namespace}-2`)
      const [here, there] = [await hear(context, peer, "news"), await hear(context, other, "news")]
      await send(context, peer, "news", "here")
      await send(context, other, "news", "there")
      await until("announcements in both namespaces", async () => here.length > 0 && there.length > 0)
      equal([here, there], [["here"], ["there"]], "what was heard")
      await harness.clean?.(`${namespace}-2`)
    },
  },
]
