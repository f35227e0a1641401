/** The service that the tests of the page look at: mails that fail until they are accepted, long jobs, limits, a schedule. */
import { actor, Reject, type ServeOptions, type Service, serve } from "callboard"
import { generateId } from "../../runtime/id.ts"
import { eventually } from "../support/servers/process.ts"

class SmtpRejected extends Error {
  override readonly name = "SmtpRejected"
}

export interface Board extends AsyncDisposable {
  readonly service: Service
  readonly url: string
  /** Sets whether mails are accepted. At first they are rejected. */
  acceptMails(accepted: boolean): void
  /** Lets the running handlers of `work.hold` and `imports.rows` end. */
  release(): void
  /** Submits a task over HTTP. Resolves with the id of its job. */
  submit(task: string, input?: unknown, more?: object): Promise<string>
  /** Submits a task and waits until its job has ended. Resolves with the id of the job. */
  ended(task: string, input?: unknown, more?: object): Promise<string>
  /** Waits until a job is in a state. */
  reached(id: string, state: string): Promise<void>
  // biome-ignore lint/suspicious/noExplicitAny: tests read fields of many different answers.
  ask(method: string, path: string, body?: unknown): Promise<{ readonly status: number; readonly body: any }>
}

export type BoardOptions = Omit<ServeOptions, "actors"> & {
  /** The token of the requests that `Board` makes. */
  readonly token?: string
  readonly actors?: NonNullable<ServeOptions["actors"]>
}

/** Starts a service on a free port. It is stopped by disposing of it. */
export const openBoard = async ({ token, ...options }: BoardOptions = {}): Promise<Board> => {
  let isUp = false
  const releases = new Set<() => void>()
  const mailer = actor("mailer", {
    queue: "mail",
    methods: {
      send: {
        retry: false,
        run: async ({ to }: { to: string }) => {
          if (!isUp) throw new SmtpRejected(`451 4.7.1 <${to}> rate limited by upstream, try again in 600s`)
          return { accepted: to }
        },
      },
    },
  })
  const work = actor("work", {
    methods: {
      echo: (input: unknown) => input,
      hold: async (_: unknown, job) => {
        job.progress(0.25, { step: "1 of 4" })
        await new Promise<void>((resolve) => {
          releases.add(resolve)
          job.signal.addEventListener("abort", () => resolve())
        })
        return "released"
      },
      reject: () => {
        throw new Reject("there is no caviar")
      },
      total: { schedule: { cron: "43 3 * * *", timeZone: "Europe/Berlin" }, run: () => ({ total: 42 }) },
    },
  })
  const imports = actor("imports", {
    queue: "imports",
    methods: {
      rows: {
        limit: { concurrency: 1, key: ({ tenant }: { tenant: string }) => tenant },
        run: async (_: { tenant: string }, job) =>
          new Promise<void>((resolve) => {
            releases.add(resolve)
            job.signal.addEventListener("abort", () => resolve())
          }),
      },
    },
  })
  const release = (): void => {
    for (const each of releases) each()
    releases.clear()
  }
  const service = await serve({
    transport: `memory://${generateId()}`,
    actors: [mailer, work, imports],
    http: { port: 0 },
    signals: false,
    logLevel: "none",
    name: "wk-1",
    concurrency: 8,
    ...options,
  })
  await service.ready()
  const { url } = service
  if (url === undefined) throw new Error("the service does not answer HTTP")
  const ask = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        "content-type": "application/json",
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) }
  }
  const submit = async (task: string, input: unknown = {}, more: object = {}): Promise<string> => {
    const { status, body } = await ask("POST", "/v1/jobs", { task, input, ...more })
    if (status >= 300) throw new Error(`${task} was refused: ${JSON.stringify(body)}`)
    return body.id
  }
  const stateOf = async (id: string): Promise<string> => (await ask("GET", `/v1/jobs/${id}`)).body.state
  return {
    service,
    url,
    acceptMails: (accepted) => {
      isUp = accepted
    },
    release,
    ask,
    submit,
    ended: async (task, input, more) => {
      const id = await submit(task, input, more)
      await eventually(async () => ["succeeded", "failed", "cancelled", "expired"].includes(await stateOf(id)))
      return id
    },
    reached: async (id, state) => {
      await eventually(async () => (await stateOf(id)) === state, { message: `job ${id} is not ${state}` })
    },
    [Symbol.asyncDispose]: async () => {
      release()
      await service.stop({ now: true })
    },
  }
}
