/**
 * Measures jobs that wait: `waits.ts <transport> <jobs>`. In each of some rounds plain jobs run first; then as many that sleep
 * are due at the same moment and run to their end.
 */
import { actor, serve } from "callboard"
import { eventually } from "../../support/servers/process.ts"
import { begin, quantiles, report, rssMiB } from "./program.js"

const [transport = "memory:", text = "500", rounds = "3"] = process.argv.slice(2)
const count = Number(text)
/** Jobs that are alone. */
const ALONE = 100

/** How long jobs sleep, in milliseconds: all sleep when the first is due. */
const NAP_MS = 6_000

/** When the handler of the job that is alone has come to its step. */
let reached = 0
const reach = () => {
  reached = performance.now()
}
const scene = actor("scene", {
  methods: {
    plain: () => null,
    sleeps: (until: number, job) => job.sleep("nap", new Date(until)),
    step: (_input: unknown, job) => job.step("first", reach),
    alone: async (_input: unknown, job) => {
      await job.waitFor("go")
      await job.step("first", reach)
    },
  },
})
const service = await serve({ transport, actors: [scene], concurrency: 64, logLevel: "none", signals: false })
await service.ready()
const { client } = service

const isAsleep = async (id: string) => {
  const { waits, state } = await client.job(id).find()
  return waits !== undefined || state === "succeeded"
}
/** Submits the jobs, and resolves with their ids. */
const submitMany = async (task: string, input: unknown = null): Promise<ReadonlyArray<string>> => {
  const receipts = await client.submitMany(Array.from({ length: count }, () => ({ task, input })))
  return receipts.map((receipt) => {
    if (receipt instanceof Error) throw receipt
    return receipt.id
  })
}
const ends = (ids: ReadonlyArray<string>) => Promise.all(ids.map((id) => client.job(id).outcome({ timeout: 300 })))

const plain = async (): Promise<number> => {
  const began = performance.now()
  await ends(await submitMany("scene.plain"))
  return count / ((performance.now() - began) / 1_000)
}
const woken = async (): Promise<number> => {
  const until = Date.now() + NAP_MS
  const ids = await submitMany("scene.sleeps", until)
  await Promise.all(ids.map((id) => eventually(() => isAsleep(id), { every: 200 })))
  if (Date.now() >= until) throw new Error("the first jobs were due before the last one slept")
  await ends(ids)
  return count / ((Date.now() - until) / 1_000)
}
const round = async () => {
  const plainOf = await plain()
  const perSecond = await woken()
  return { plain: plainOf, perSecond, ofPlain: perSecond / plainOf }
}
/** Milliseconds from a submission to the first step, and from a signal to the next one, of a job that is alone. */
const soon = async () => {
  const submitted = performance.now()
  await (await client.submit("scene.step")).outcome({ timeout: 300 })
  const submitMs = reached - submitted
  const job = await client.submit("scene.alone")
  await eventually(() => isAsleep(job.id))
  const signalled = performance.now()
  await job.signal("go")
  await job.outcome({ timeout: 300 })
  return { submitMs, signalMs: reached - signalled }
}
await round()
for (let n = 0; n < 10; n++) await soon()
await begin()
const all: Array<Awaited<ReturnType<typeof round>>> = []
while (all.length < Number(rounds)) all.push(await round())
const alone: Array<Awaited<ReturnType<typeof soon>>> = []
while (alone.length < ALONE) alone.push(await soon())
const median = (of: keyof (typeof all)[number]) => quantiles(all.map((each) => each[of])).p50
const signals = quantiles(alone.map(({ signalMs }) => signalMs))
report({
  jobs: count * Number(rounds) * 2,
  perSecond: median("perSecond"),
  plain: median("plain"),
  ofPlain: median("ofPlain"),
  submitMs: quantiles(alone.map(({ submitMs }) => submitMs)).p50,
  signalMs: signals.p50,
  signalP99Ms: signals.p99,
  rssMiB: rssMiB(),
})
