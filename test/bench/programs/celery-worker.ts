/** A worker among those of Celery: it takes what Celery's client has submitted. `celery-worker.ts <url of the Redis>` */
import { actor, serve } from "callboard"

const [url = ""] = process.argv.slice(2)
const app = actor("celery_app", {
  methods: { noop: { params: ["n", "payload"], run: ({ n }: { readonly n: number }) => ({ n }) } },
})
const service = await serve({
  transport: `${url}/0`,
  resultBackend: `${url}/1`,
  queues: ["celery"],
  actors: [app],
  concurrency: 200,
  logLevel: "warn",
})
await service.ready()
