/** The service that programs over HTTP talk to, and what they tell of it. */
import { actor, type Service, serve } from "callboard"

const remote = actor("remote", {
  methods: {
    echo: (input: unknown) => input,
    fail: {
      retry: false,
      run: () => {
        throw new Error("no")
      },
    },
  },
})

/** A token with every right. */
export const TOKEN = "t".repeat(32)

/** What `test/fixtures/http-program.ts` tells, wherever it runs. */
export const TOLD: ReadonlyArray<string> = [
  "events queued,started,succeeded",
  `result 1970-01-02T00:00:00.000Z ${2n ** 60n} 1,2,250`,
  "failed failed",
  "retried run 2",
  "cancel cancelled",
  "deleted gone",
  "claimed poster",
  "schedule nightly",
  "many 1,2,3",
  "refused invalid-input",
]

/** Starts the service. `origins`: of the pages that may use it. */
export const serveHttp = async (origins: ReadonlyArray<string> = []): Promise<Service> => {
  const tokens = [{ token: TOKEN, scopes: ["admin" as const] }]
  const http = { port: 0, tokens, origins }
  const service = await serve({ transport: "memory:", actors: [remote], http, signals: false, logLevel: "none" })
  await service.ready()
  return service
}
