/**
 * Every way of calling a method of the handle of a job (in an inline handler, in an isolated one, with the client over HTTP, by a
 * bare request, on the command line) takes the same options, refuses the same in the same words, and does the same.
 */
import { type Client, type Service, serve } from "callboard"
import { connectHttp } from "callboard/client"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { HANDLE } from "../runtime/jobs/handle.ts"
import { makeProject, type Project } from "./cli/project.ts"
import { apart, type Call, callOn, here, raw, type Said, saidBy } from "./doors-actors.ts"
import { eventually } from "./support/servers/process.ts"

const WAIT = { timeout: 60 }

let project: Project
let service: Service
let client: Client
beforeAll(async () => {
  project = makeProject({})
  const transport = `sqlite:${project.path}/board.db`
  project.env["CALLBOARD_TRANSPORT"] = transport
  service = await serve({
    transport,
    actors: [here, apart, raw],
    concurrency: 20,
    http: { port: 0 },
    signals: false,
    logLevel: "none",
  })
  client = service.client
  await service.ready()
})
afterAll(async () => {
  await service?.stop({ now: true })
  project?.[Symbol.dispose]()
})

const stateOf = (id: string): Promise<string> =>
  client
    .job(id)
    .find()
    .then(
      ({ state }) => state,
      (cause: { readonly code: string }) => cause.code,
    )

const ended = async (task: string): Promise<string> => {
  const job = await client.submit(task)
  await job.outcome(WAIT)
  return job.id
}

const childOf = (id: string): string => `${id}-child`

/** A job that waits for its time, with one that waits for it. */
const waiting = async (): Promise<string> => {
  const { id } = await client.submit("here.work", { delay: 600 })
  await client.submit("here.work", { id: childOf(id), after: id })
  return id
}

/** The state of a job of {@link waiting}, and of its child once that is no longer `deferred` where it is to move on. */
const bothOf = (child: string) => async (id: string) => {
  const moved = await eventually(async () => ((await stateOf(childOf(id))) === child ? child : undefined), {
    message: `the child of ${id} is ${child}`,
  })
  return [await stateOf(id), moved]
}

const unchanged = async (id: string) => [await stateOf(id), await stateOf(childOf(id)).catch(() => undefined)]

const signalsOf = async (id: string) => (await client.job(id).find()).signals?.map(({ name }) => name)

const failureOf = async (id: string): Promise<string | undefined> => (await client.job(id).find()).error?.message

/** How often a job has run, and whether its last run has kept the step of the first. */
const runsOf = async (id: string, before: string | undefined) => {
  await client.job(id).outcome(WAIT)
  const { run } = await client.job(id).find()
  return [run, (await failureOf(id)) === before ? "kept" : "anew"]
}

interface Request {
  readonly method?: string
  /** Follows the path of the job. */
  readonly path: string
  readonly body?: unknown
}

interface Case {
  /** Absent: the method is called without an argument. */
  readonly argument?: unknown
  readonly request?: Request
  /** Words of the command line; `ID` is the job. */
  readonly command?: string
}

interface Refused extends Case {
  readonly says: string
  /** What a request says, where its parameter has another name. */
  readonly requestSays?: string
  /** What the command line says, of which flags are options. */
  readonly commandSays?: string
}

interface Row {
  readonly job: () => Promise<string>
  /** What is looked at before each call, for {@link Row.effect}. */
  readonly before?: (id: string) => Promise<string | undefined>
  /** What the answer of the call is reduced to, or what came of the call. */
  readonly right: Case & { readonly effect: Effect; readonly is: unknown }
  readonly missing: (Case & { readonly effect: Effect; readonly is: unknown }) | Refused
  /** Absent: the method takes no options. */
  readonly misspelt?: Refused
  readonly mistyped?: Refused
}

type Effect = (id: string, answer: unknown, before: string | undefined) => unknown

const answerHas =
  (field: string): Effect =>
  (_id, answer) =>
    Reflect.get(Object(answer), field)

const NO_DURATION =
  '"soon" is not a duration: it is not a number with a unit. Use a number of seconds, or text such as "10s", "5 minutes" or "500 ms".'

const statesOf: Effect = (_id, answer) =>
  (answer as ReadonlyArray<{ readonly state?: string }>).flatMap(({ state }) => (state === undefined ? [] : [state]))

const ROWS: { readonly [Method in keyof typeof HANDLE]: Row } = {
  find: {
    job: () => ended("here.work"),
    right: { effect: answerHas("state"), is: "succeeded", request: { path: "" }, command: "job ID" },
    missing: { effect: answerHas("result"), is: 1 },
  },
  result: {
    job: () => ended("here.work"),
    right: { argument: { timeout: "5s" }, effect: (_id, answer) => answer, is: 1 },
    missing: { effect: (_id, answer) => answer, is: 1 },
    misspelt: {
      argument: { tiemout: 1 },
      says: "tiemout is not an option of result() (did you mean timeout?)",
      request: { path: "/result?wiat=1" },
      requestSays: "wiat is not an option of result() (did you mean wait?)",
    },
    mistyped: {
      argument: { timeout: "soon" },
      says: `timeout: ${NO_DURATION}`,
      request: { path: "/result?wait=soon" },
      requestSays: `wait: ${NO_DURATION}`,
    },
  },
  outcome: {
    job: () => ended("here.work"),
    right: {
      argument: { timeout: "5s" },
      effect: answerHas("result"),
      is: 1,
      request: { path: "/result?wait=5s" },
    },
    missing: { effect: answerHas("state"), is: "succeeded", request: { path: "/result" } },
    misspelt: {
      argument: { tiemout: 1 },
      says: "tiemout is not an option of outcome() (did you mean timeout?)",
    },
    mistyped: {
      argument: { timeout: true },
      says: "timeout: must be a duration: seconds as a number, or text such as 30s",
    },
  },
  results: {
    job: () => ended("here.work"),
    right: {
      argument: { wait: "5s" },
      effect: (_id, answer) => (Array.isArray(answer) ? answer : Reflect.get(Object(answer), "results")).length,
      is: 1,
      request: { path: "/results?wait=5s" },
    },
    missing: {
      effect: (_id, answer) => (Array.isArray(answer) ? answer : Reflect.get(Object(answer), "results")).length,
      is: 1,
      request: { path: "/results" },
      command: "job ID --results",
    },
    misspelt: {
      argument: { wiat: 1 },
      says: "wiat is not an option of results() (did you mean wait?)",
      request: { path: "/results?wiat=1" },
    },
    mistyped: {
      argument: { wait: "soon" },
      says: `wait: ${NO_DURATION}`,
      request: { path: "/results?wait=soon" },
    },
  },
  events: {
    job: () => ended("here.work"),
    right: {
      argument: { lastEventId: "1.1" },
      effect: statesOf,
      is: ["started", "succeeded"],
      request: { path: "/events?lastEventId=1.1" },
    },
    missing: { effect: statesOf, is: ["queued", "started", "succeeded"], request: { path: "/events" } },
    misspelt: {
      argument: { lastEventld: "1.1" },
      says: "lastEventld is not an option of events() (did you mean lastEventId?)",
      request: { path: "/events?lastEventld=1.1" },
    },
    mistyped: {
      argument: { lastEventId: "first" },
      says: "lastEventId: is not an event id, such as 1.3",
      request: { path: "/events?lastEventId=first" },
    },
  },
  cancel: {
    job: waiting,
    right: {
      argument: { release: true },
      effect: bothOf("succeeded"),
      is: ["cancelled", "succeeded"],
      request: { method: "POST", path: "/cancel?release=true" },
      command: "cancel ID --release",
    },
    missing: {
      effect: bothOf("deferred"),
      is: ["cancelled", "deferred"],
      request: { method: "POST", path: "/cancel" },
      command: "cancel ID",
    },
    misspelt: {
      argument: { relese: true },
      says: "relese is not an option of cancel() (did you mean release?)",
      request: { method: "POST", path: "/cancel?relese=true" },
      command: "cancel ID --relese",
      commandSays: "unknown option '--relese'",
    },
    mistyped: {
      argument: { terminate: "yes" },
      says: "terminate: must be true or false",
      request: { method: "POST", path: "/cancel?terminate=yes" },
    },
  },
  retry: {
    job: () => ended("here.fail"),
    before: failureOf,
    right: {
      argument: { from: "start" },
      effect: (id, _answer, before) => runsOf(id, before),
      is: [2, "anew"],
      request: { method: "POST", path: "/retry?from=start" },
      command: "retry ID --from start",
    },
    missing: {
      effect: (id, _answer, before) => runsOf(id, before),
      is: [2, "kept"],
      request: { method: "POST", path: "/retry" },
      command: "retry ID",
    },
    misspelt: {
      argument: { form: "start" },
      says: "form is not an option of retry() (did you mean from?)",
      request: { method: "POST", path: "/retry?form=start" },
      command: "retry ID --form start",
      commandSays: "unknown option '--form'",
    },
    mistyped: {
      argument: { from: "x" },
      says: 'from: must be "start"',
      request: { method: "POST", path: "/retry?from=x" },
    },
  },
  patchMeta: {
    job: () => ended("here.work"),
    right: {
      argument: { note: "x", signal: 1, absent: null },
      effect: answerHas("meta"),
      is: { note: "x", signal: 1 },
      request: { method: "PATCH", path: "/meta", body: { note: "x", signal: 1, absent: null } },
    },
    missing: { says: "meta: a change must be an object", request: { method: "PATCH", path: "/meta", body: null } },
    // Each name is a field of the application.
    mistyped: {
      argument: [1],
      says: "meta: a change must be an object",
      request: { method: "PATCH", path: "/meta", body: [1] },
    },
  },
  signal: {
    job: waiting,
    right: {
      argument: { name: "go", value: 1, key: "k" },
      effect: signalsOf,
      is: ["go"],
      request: { path: "/signals/go", method: "POST", body: { value: 1, key: "k" } },
      command: "signal ID go 1 --key k",
    },
    missing: {
      argument: { name: "go" },
      effect: signalsOf,
      is: ["go"],
      request: { path: "/signals/go", method: "POST" },
      command: "signal ID go",
    },
    misspelt: {
      argument: { name: "go", kye: "k" },
      says: "kye is not an option of signal() (did you mean key?)",
    },
    mistyped: {
      argument: { name: "go", key: "" },
      says: "key: must be well-formed text of 1 to 128 bytes without control characters",
      request: { path: "/signals/go", method: "POST", body: { key: "" } },
    },
  },
  delete: {
    job: waiting,
    right: {
      argument: { dependents: true },
      effect: bothOf("gone"),
      is: ["gone", "gone"],
      request: { method: "DELETE", path: "?dependents=true" },
      command: "delete ID --dependents",
    },
    missing: {
      effect: bothOf("failed"),
      is: ["gone", "failed"],
      request: { method: "DELETE", path: "" },
      command: "delete ID",
    },
    misspelt: {
      argument: { dependent: true },
      says: "dependent is not an option of delete() (did you mean dependents?)",
      request: { method: "DELETE", path: "?dependent=true" },
      command: "delete ID --dependent",
      commandSays: "unknown option '--dependent'",
    },
    mistyped: {
      argument: { dependents: 1 },
      says: "dependents: must be true or false",
      request: { method: "DELETE", path: "?dependents=1" },
    },
  },
}

/** A way of calling; `undefined` where it lacks the method. */
type Door = (method: string, id: string, given: Case) => (() => Promise<Said>) | undefined

const callOf = (method: string, id: string, given: Case): Call => ({
  id,
  method,
  argument: "argument" in given ? [given.argument] : [],
})

const handler =
  (task: string): Door =>
  (method, id, given) =>
  async () =>
    (await client.submit(task, { input: callOf(method, id, given) })).result(WAIT) as Promise<Said>

/** The events of a stream, as {@link callOn} has them. */
const eventsIn = (text: string): ReadonlyArray<unknown> =>
  text.split("\n").flatMap((line) => (line.startsWith("data: ") ? [JSON.parse(line.slice(6))] : []))

const DOORS: Readonly<Record<string, Door>> = {
  code: (method, id, given) => () => saidBy(() => callOn(client.job(id), callOf(method, id, given))),
  "an inline handler": handler("here.call"),
  // What it cannot do is tested below.
  "an isolated handler": (method, id, given) =>
    method === "events" && !("says" in given) ? undefined : handler("apart.call")(method, id, given),
  "the client over HTTP": (method, id, given) => {
    const handle = connectHttp(service.url ?? "").job(id)
    return method in handle ? () => saidBy(() => callOn(handle, callOf(method, id, given))) : undefined
  },
  "a request": (_method, id, { request }) =>
    request &&
    (async () => {
      const { method = "GET", path, body } = request
      const sent = body === undefined ? {} : { body: JSON.stringify(body) }
      const headers = { "content-type": "application/json" }
      const response = await fetch(`${service.url}/v1/jobs/${id}${path}`, { method, headers, ...sent })
      const text = await response.text()
      if (response.headers.get("content-type")?.startsWith("text/event-stream")) return { done: eventsIn(text) }
      const answer = text === "" ? undefined : JSON.parse(text)
      return response.ok ? { done: answer } : { code: answer.code, message: answer.detail, field: answer.field }
    }),
  "the command line": (_method, id, { command }) =>
    command === undefined
      ? undefined
      : async () => {
          const words = command.split(" ").map((word) => (word === "ID" ? id : word))
          const { code, stdout, stderr } = await project.ask(...words, "--json")
          if (code === 0) return { done: JSON.parse(stdout) }
          return { code: `exit ${code}`, message: stderr.replace(/^callboard: |\n$/g, ""), field: undefined }
        },
}

const CODES = { misspelt: "unknown-field", mistyped: "invalid-input", missing: "invalid-input" } as const

const refusalOf = (door: string, kind: keyof typeof CODES, refused: Refused) => {
  const { says, requestSays = says, commandSays = says } = refused
  if (door === "the command line")
    return { code: "exit 2", message: expect.stringContaining(commandSays), field: undefined }
  const message = door === "a request" ? requestSays : says
  return { code: CODES[kind], message, field: /^\w+/.exec(message)?.[0] }
}

test("every method of the handle has a row", () => {
  expect(Object.keys(ROWS)).toEqual(Object.keys(HANDLE))
  for (const [method, { options }] of Object.entries(HANDLE))
    if (Object.keys(options).length > 0) expect(Object.keys(Reflect.get(ROWS, method))).toContain("misspelt")
})

describe.each(Object.entries(ROWS))("%s()", (method, row) => {
  const each = (given: Case, judge: (door: string, id: string, said: Said, before: string | undefined) => unknown) =>
    Promise.all(
      Object.entries(DOORS).map(async ([door, through]) => {
        const id = await row.job()
        const call = through(method, id, given)
        if (call === undefined) return
        const before = await row.before?.(id)
        await judge(door, id, await call(), before)
      }),
    )

  for (const kind of ["right", "missing", "misspelt", "mistyped"] as const) {
    const given = row[kind]
    if (given === undefined) continue
    test(`with ${kind === "missing" ? "no argument" : `a ${kind} one`}`, async () => {
      await each(given, async (door, id, said, before) => {
        if ("effect" in given) {
          expect(said, door).toHaveProperty("done")
          const answer = "done" in said ? said.done : undefined
          expect(await given.effect(id, answer, before), door).toEqual(given.is)
        } else {
          const was = method === "retry" ? ["failed", "not-found"] : undefined
          expect(said, door).toEqual(refusalOf(door, kind === "right" ? "missing" : kind, given))
          expect(await unchanged(id), door).toEqual(
            was ?? (row.job === waiting ? ["scheduled", "deferred"] : ["succeeded", "not-found"]),
          )
        }
      })
    })
  }
})

test("an isolated handler cannot follow events, and says so", async () => {
  const id = await ended("here.work")
  for (const given of [{}, { argument: { lastEventId: "1.1" } }])
    expect(await handler("apart.call")("events", id, given)?.()).toMatchObject({ code: "unsupported" })
})

test.each([
  ["handle", "cancle"],
  ["handle", "events"],
  ["handle", "constructor"],
  ["steps", "finish"],
  ["steps", "settled"],
  ["job", "toString"],
  ["jobs", "submit"],
])("a call of %s.%s over the channel of an isolated handler is refused, and nothing is done", async (object, name) => {
  const id = await waiting()
  const answer = await client.submit("raw.ask", { input: { object, method: name, args: JSON.stringify([id]) } })
  expect(await answer.result(WAIT)).toMatchObject({
    refused: {
      code: "internal",
      message: `an isolated handler cannot call ${object}.${name}: the worker does not know it`,
    },
  })
  expect(await unchanged(id)).toEqual(["scheduled", "deferred"])
})
