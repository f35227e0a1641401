/**
 * A worker for the ledger of future jobs: `ledger-worker.ts <transport> <folder> <N>`. Its handler notes each run. At one of N
 * postings of a schedule the worker kills itself, before or after it publishes the posting, until there is a file `calm`.
 */
import { appendFileSync, existsSync } from "node:fs"
import { actor, serve } from "callboard"
import { connectTransport } from "../../runtime/connection/connect.ts"
import type { LiftedPlugin } from "../../runtime/transport/job-store/plugin.ts"
import type { Jobs } from "../../runtime/transport/job-store/transport.ts"

const [transport = "", folder = "", oneOf = "0"] = process.argv.slice(2)

/** Whether the worker dies at these postings: one time in `N` if a schedule made them, else never. */
const dies = (postings: Parameters<Jobs["publish"]>[0]): boolean =>
  postings.some(({ id }) => id.startsWith("ledger-")) &&
  Math.random() * Number(oneOf) < 1 &&
  !existsSync(`${folder}/calm`)

const mortal: LiftedPlugin = {
  schemes: ["mortal"],
  connect: async (url, options) => {
    const inner = await connectTransport(url.href.replace(/^mortal:/, ""), {
      namespace: options.namespace,
      leaseMs: options.lease,
      name: options.name,
      timeoutMs: options.timeout,
    })
    const publish: Jobs["publish"] = async (postings) => {
      if (!dies(postings)) return inner.jobs.publish(postings)
      if (Math.random() < 0.5) await inner.jobs.publish(postings)
      process.kill(process.pid, "SIGKILL")
      return new Promise<never>(() => undefined)
    }
    return Object.assign(Object.create(inner), {
      jobs: Object.assign(Object.create(inner.jobs), { publish }),
      close: () => inner.close(),
      onStatus: inner.onStatus.bind(inner),
    })
  },
}

const ledger = `${folder}/ledger-${process.pid}`
const note = actor("note", {
  methods: { run: (_input: unknown, job) => appendFileSync(ledger, `${job.id} ${Date.now()}\n`) },
})

const service = await serve({
  transport: `mortal:${transport}`,
  transports: { mortal },
  actors: [note],
  concurrency: 32,
  lostCap: 1_000,
  reconnect: { maxTries: 0 },
  logLevel: "error",
})
await service.ready()
console.log("ready")
await service.stopped
process.exit(0)
