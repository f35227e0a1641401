/** What the descriptions of routes tell the compiler: a request that no route takes does not compile. */
import type { Ask } from "../../../../runtime/client/http-request.ts"
import type { Job } from "../../../../runtime/jobs/responses.ts"

declare const ask: Ask

export const job: Promise<Job> = ask("GET /v1/jobs/{id}", { id: "a" }, "state")
export const state: Promise<string> = ask("GET /v1/jobs/{id}/result", { id: "a", query: { wait: "1s" } }, "state").then(
  (answer) => answer.state,
)

// @ts-expect-error There is no such route.
export const misspelt = ask("GET /v1/job/{id}", { id: "a" }, "state")
// @ts-expect-error The path names a job.
export const nameless = ask("GET /v1/jobs/{id}", {}, "state")
// @ts-expect-error The query has no such parameter.
export const unknown = ask("POST /v1/jobs/{id}/cancel", { id: "a", query: { relese: true } }, "state")
// @ts-expect-error The parameter is true or false.
export const mistyped = ask("POST /v1/jobs/{id}/cancel", { id: "a", query: { release: "yes" } }, "state")
// @ts-expect-error A task needs a name.
export const unnamed = ask("POST /v1/jobs", { body: { input: 1 } }, "id")
// @ts-expect-error The answer of a cancellation is the job, and no text.
export const wrong: Promise<string> = ask("POST /v1/jobs/{id}/cancel", { id: "a" }, "state")
// @ts-expect-error The answer has no such field.
export const fieldless = ask("GET /v1/jobs/{id}", { id: "a" }, "stat")
