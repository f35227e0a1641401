/** What is hidden of the input of jobs that their submitter did not plan: follow-ups, and tasks of methods unknown to it. */
import { actor, connect } from "callboard"
import { expect, onTestFinished, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start } from "../../../support/services.ts"

const shop = actor("shop", {
  methods: {
    pay: { redact: ["card"], run: ({ card }: { card: string; fail?: boolean }) => ({ card, paid: true }) },
    refuse: {
      redact: ["card"],
      run: async (_input: { card: string }) => {
        throw new Error("no money")
      },
    },
    mail: (_input: unknown) => "sent",
    keep: { redact: ["token"], run: (_input: unknown) => "kept" },
    vault: { redact: true, run: (_input: unknown) => "kept" },
  },
})

const WAIT = { timeout: 30 }
const secrets = { card: "4000", token: "t-1", note: "n" }
/** Nothing is fetched from this queue, so that the tasks in it are shown as they were posted. */
const unread = { queue: "unread", immutable: true, kwargs: secrets }

test("what follows a job hides what its own method hides, and what the job before it hides", async () => {
  const { client } = await start([shop], { queues: ["default"] })
  const inputOf = async (id: string) => (await client.job(id).find()).input
  const done = await client.submit("shop.pay", {
    queue: "default",
    input: { card: "4000" },
    callbacks: [{ ...unread, task: "shop.mail", id: "mailed" }],
    chain: [
      { ...unread, queue: "default", task: "shop.keep", id: "kept" },
      { ...unread, task: "shop.mail", id: "last" },
    ],
  })
  await done.result(WAIT)
  await client.job("kept").result(WAIT)
  expect(await inputOf("mailed")).toEqual({ card: "***", token: "t-1", note: "n" })
  expect(await inputOf("last")).toEqual({ card: "***", token: "***", note: "n" })
  const refused = await client.submit("shop.refuse", {
    queue: "default",
    input: { card: "4000" },
    retry: false,
    errbacks: [
      { ...unread, task: "shop.keep", id: "told" },
      { ...unread, task: "shop.vault", id: "locked" },
    ],
  })
  await refused.outcome(WAIT)
  expect(await inputOf("told")).toEqual({ card: "***", token: "***", note: "n" })
  expect(await inputOf("locked")).toEqual({ card: "***", token: "***", note: "***" })
  expect((await client.job("told").find()).description).not.toMatch(/4000|t-1/)
})

test("a member of a chord within a chain hides what the link before it hides", async () => {
  const { client } = await start([shop], { queues: ["default"] })
  const job = await client.submit("shop.pay", {
    queue: "default",
    input: { card: "4000" },
    chain: [{ task: "shop.mail", id: "body", chord: [{ ...unread, task: "shop.mail", id: "member" }] }],
  })
  await job.result(WAIT)
  expect((await client.job("member").find()).input).toEqual({ card: "***", token: "t-1", note: "n" })
})

test("what a method hides is hidden where its submitter did not know it", async () => {
  const transport = `memory://${generateId()}`
  await using client = await connect(transport)
  await client.submit("shop.keep", { id: "early", queue: "unread", input: secrets })
  await client.submit("other.keep", { id: "other", queue: "unread", input: secrets })
  await start([shop], { transport, queues: ["default"] })
  expect((await client.job("early").find()).input).toEqual({ card: "4000", token: "***", note: "n" })
  expect((await client.job("other").find()).input).toEqual(secrets)
})

test("events hide what the task itself hides", async () => {
  const { client } = await start([shop], { queues: ["default"], events: true })
  const received: Array<string> = []
  const listening = new AbortController()
  onTestFinished(() => listening.abort())
  await client.listen((event) => {
    if (event["type"] === "task-received") received.push(JSON.stringify(event))
  }, listening.signal)
  await client.submit("shop.pay", {
    queue: "default",
    input: { card: "4000" },
    callbacks: [{ ...unread, queue: "default", task: "shop.mail", id: "mailed" }],
  })
  await eventually(async () => received.length === 2, { deadline: 10_000, message: "both tasks are received" })
  expect(received.join()).not.toContain("4000")
  expect(received.join()).toContain("t-1")
})
