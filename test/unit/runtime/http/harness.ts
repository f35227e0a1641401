/** A service with HTTP on the memory transport, and a client that checks each answer against the published document. */
import { type ActorDefinition, actor, type ServeOptions, type Service, serve } from "callboard"
import { generateId } from "../../../../runtime/id.ts"
import { Faults, faultyPlugin } from "../../../support/faults.ts"
import { DocumentCheck } from "./document-check.ts"

export interface HttpResponse {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body as JSON; `undefined` where it is none. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers, and the document check has seen their form.
  readonly body: any
}

export interface AskOptions {
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as it is where it is text or bytes, else as JSON. */
  readonly body?: unknown
  readonly token?: string
  readonly signal?: AbortSignal
}

export interface Running {
  readonly service: Service
  readonly url: string
  readonly faults: Faults
  /** Lets the handler of `work.hold` go on. */
  readonly release: () => void
  ask(method: string, path: string, options?: AskOptions): Promise<HttpResponse>
  submit(body: unknown, headers?: Readonly<Record<string, string>>): Promise<HttpResponse>
}

/** What tests hold up: let go of when they are over. */
const releases = new Set<() => void>()

/** An actor whose methods end in each way that a job can end. */
export const work = (held: Promise<void>): ActorDefinition =>
  actor("work", {
    methods: {
      echo: (input: unknown) => input,
      fail: () => {
        throw new TypeError("no such thing")
      },
      nothing: () => undefined,
      hold: async (_input: unknown, job) => {
        job.progress(0.25, { step: "holding" })
        await Promise.race([held, new Promise((resolve) => job.signal.addEventListener("abort", resolve))])
        return "released"
      },
    },
  })

const running: Array<Service> = []

/** Stops what a test started: for `afterEach`. */
export const stopAll = async (): Promise<void> => {
  for (const release of releases) release()
  releases.clear()
  await Promise.all(running.splice(0).map((service) => service.stop({ now: true })))
}

export type StartOptions = ServeOptions & { readonly change?: Parameters<typeof faultyPlugin>[1] }

/** The document that a service publishes; its form is checked by a test of its own. */
const published = async (url: string): Promise<string> => (await fetch(`${url}/openapi.json`)).text()

/** Starts a service with a worker; `actors: []` starts one without. */
export const start = async ({ change, ...options }: StartOptions = {}): Promise<Running> => {
  const faults = new Faults()
  let release = (): void => undefined
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  releases.add(() => release()).add(() => faults.heal())
  const service = await serve({
    transport: `faulty://${generateId()}`,
    transports: { faulty: faultyPlugin(faults, change) },
    actors: [work(held)],
    http: { port: 0 },
    signals: false,
    logLevel: "none",
    ...options,
  })
  running.push(service)
  await service.ready()
  const { url } = service
  if (url === undefined) throw new Error("the service does not answer HTTP")
  const check = DocumentCheck.of(await published(url))
  const ask = async (
    method: string,
    path: string,
    { headers, body, token, signal }: AskOptions = {},
  ): Promise<HttpResponse> => {
    const raw = body === undefined || typeof body === "string" || body instanceof Uint8Array
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...headers,
      },
      redirect: "error",
      ...(body === undefined ? {} : { body: raw ? (body as string | Uint8Array<ArrayBuffer>) : JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    })
    const text = await response.text()
    const contentType = (response.headers.get("content-type") ?? "").split(";")[0] ?? ""
    const json: unknown = contentType.endsWith("json") && text !== "" ? JSON.parse(text) : undefined
    if (method !== "HEAD") {
      const asked = path.split("?")[0] ?? ""
      // An array is answered by both routes as the description of this one says.
      const described = asked === "/v1/jobs" && Array.isArray(json) ? "/v1/jobs/batch" : asked
      check.check({ method, path: described, status: response.status, contentType, body: json ?? text })
    }
    return { status: response.status, headers: response.headers, text, body: json }
  }
  return {
    service,
    url,
    faults,
    release,
    ask,
    submit: (body, headers) => ask("POST", "/v1/jobs", { body, ...(headers === undefined ? {} : { headers }) }),
  }
}

/** Submits a task and waits for its end. */
export const finished = async ({ ask, submit }: Running, task: object): Promise<string> => {
  const { body } = await submit(task)
  const { status } = await ask("GET", `/v1/jobs/${body.id}/result?wait=5s`)
  if (status !== 200) throw new Error(`job ${body.id} did not end`)
  return body.id
}
