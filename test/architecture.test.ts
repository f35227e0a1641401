/** Which folder may import which. A change that needs another import adds it to this table, and the reason to ARCHITECTURE.md. */

import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, test } from "vitest"
import {
  arrowsUp,
  type Direction,
  fileCircles,
  folderCircles,
  homeless,
  importsOf,
  repeated,
  roomsOf,
  type Single,
  sourcesBelow,
  violations,
} from "./support/tools/imports.ts"

/** Packages that every folder of the runtime may import. Hono and commander are not among them: each belongs to one folder. */
const foundations = ["effect", "effect/**", "node:**", "@standard-schema/spec", "@msgpack/msgpack", "yaml"]

/** What describes the answers of the HTTP interface. */
const shown = [
  "runtime/cluster/directory.ts",
  "runtime/config/scopes.ts",
  "runtime/jobs/lists.ts",
  "runtime/jobs/responses.ts",
  "runtime/jobs/why/cause.ts",
  "runtime/options/fields.ts",
  "runtime/schedules/view.ts",
  "runtime/statistics/schema.ts",
  "runtime/steps/listing.ts",
]

/** The client library of each plugin; a plugin that is not here has none. */
const clients: Readonly<Record<string, readonly string[]>> = {
  amqp: ["amqplib"],
  nats: ["nats"],
  postgres: ["pg"],
  redis: ["redis"],
}

/** The modules of effect that only compute: no clock, no randomness, no services. */
const pureEffect = ["Brand", "Data", "Duration", "Option", "Predicate", "Result", "Schema"].map(
  (name) => `effect/${name}`,
)

const impure = [
  /\bDate\s*\.\s*now\b/,
  /\bnew\s+Date\s*(?:\(\s*\)|(?![\s(\w]))/,
  /\bMath\s*\.\s*random\b/,
  /\bperformance\s*\.\s*now\b/,
  /(?<![.\w$])(?:crypto|getRandomValues|randomUUID|randomBytes)\b(?!\s*\??:)/,
  /(?<![.\w$])(?:process|console|Bun|Deno)\s*[.[?]/,
  /(?<![.\w$])(?:fetch|setTimeout|setInterval|setImmediate|queueMicrotask)\s*\(/,
]

const pluginMay = ["{own}", "runtime/transport/**", "runtime/protocol/**", "node:**"]

const table: readonly Direction[] = [
  {
    why: "the protocol is pure: no I/O, clock or randomness",
    files: "runtime/protocol/**",
    may: ["runtime/protocol/**", ...pureEffect, "@msgpack/msgpack", "yaml", "node:zlib"],
    words: impure,
  },
  {
    why: "the plugin contract is plain TypeScript",
    files: "runtime/transport/**",
    may: ["runtime/transport/**", "runtime/protocol/**"],
  },
  {
    why: "the one place that knows which plugins ship, and loads only the one that is used",
    files: "runtime/connection/builtin.ts",
    may: ["plugins/*/mod.ts", "runtime/**"],
    onlyDynamic: "plugins/**",
  },
  {
    why: "hono belongs to the HTTP application",
    files: "runtime/http/**",
    may: ["runtime/**", "hono", "hono/**", ...foundations],
    never: ["runtime/cli/**"],
  },
  {
    why: "Node's server speaks requests and responses through an adapter",
    files: "runtime/platform/node.ts",
    may: ["runtime/**", "@hono/node-server", ...foundations],
    never: ["runtime/cli/**"],
  },
  {
    why: "prom-client belongs to the metrics",
    files: "runtime/metrics/**",
    may: ["runtime/**", "prom-client", ...foundations],
    never: ["runtime/cli/**"],
  },
  {
    why: "OpenTelemetry belongs to the traces",
    files: "runtime/tracing/**",
    may: ["runtime/**", "@opentelemetry/api", ...foundations],
    never: ["runtime/cli/**"],
  },
  {
    why: "OpenTelemetry belongs to the traces; those of attempts are the worker's",
    files: "runtime/worker/telemetry/attempt-spans.ts",
    may: ["runtime/**", "@opentelemetry/api", ...foundations],
    never: ["runtime/cli/**"],
  },
  {
    why: "croner belongs to the schedules",
    files: "runtime/schedules/timing.ts",
    may: ["runtime/**", "croner", ...foundations],
    never: ["runtime/cli/**"],
  },
  {
    why: "commander belongs to the command line",
    files: "runtime/cli/**",
    may: ["runtime/**", "commander", ...foundations],
  },
  {
    why: "the page runs in the browser, and shows the data of jobs as text alone",
    files: "runtime/page/**",
    may: ["runtime/page/**", "preact", "preact/**", "@preact/signals"],
    mayTypes: shown,
    words: [
      /(?<![.\w$])(?:process|Buffer|global|require|Bun|Deno)\s*[.[(?]/,
      /\b(?:inner|outer)HTML\b/,
      /\bdangerouslySetInnerHTML\b/,
      /\binsertAdjacentHTML\b/,
      /\bdocument\.write/,
      /(?<![.\w$])eval\s*\(/,
      /\bnew\s+Function\b/,
      /(?<![\w$-])style=/,
      /\bsetAttribute\b/,
    ],
  },
  {
    why: "the one place that reads the package's own manifest",
    files: "runtime/version.ts",
    may: ["package.json"],
  },
  {
    why: "the engine knows no plugin, actor, broker client, web framework or command line",
    files: "runtime/**",
    may: ["runtime/**", ...foundations],
    never: ["runtime/cli/**"],
  },
  ...Object.entries(clients).map(([name, libraries]) => ({
    why: "a plugin knows the contract, the protocol and its client library",
    files: `plugins/${name}/**`,
    may: [...pluginMay, ...libraries],
  })),
  {
    why: "a plugin knows the contract and the protocol, no other plugin and not the engine",
    files: "plugins/*/**",
    may: pluginMay,
  },
  {
    why: "an actor is what an application developer would write",
    files: "actors/**",
    may: ["**"],
    never: ["runtime/**", "plugins/**", "test/**", "callboard/**", "hono", "nats", "vitest"],
  },
  {
    why: "plugin authors run the kit outside of this repository, with any test runner",
    files: "test/kit/**",
    may: ["test/kit/**", "callboard", "callboard/**", "runtime/transport/**", "runtime/protocol/**", "node:**"],
    never: ["node:test"],
  },
]

/** The page imports no values of the runtime, a template is a file of an application, and the launcher is plain JavaScript. */
const OWN = ["runtime/page/**", "runtime/cli/templates/**", "runtime/cli/dev/*.js"]

const singles: readonly Single[] = [
  {
    use: "isObject, isMap, isDecodedMap or isPlainObject",
    home: "runtime/protocol/guards.ts",
    words:
      /typeof ([\w.]+) === "" && \1 !== null|typeof ([\w.]+) !== "" \|\| \2 === null|const is(?:Object|Map|DecodedMap|PlainObject) =|prototype === Object\.prototype/,
    // JSON's codec asks for each value of a body.
    but: [...OWN, "runtime/protocol/codec/json.ts"],
  },
  {
    use: "encoder, decoder, bomDecoder, strictDecoder, exactDecoder or byteLength",
    home: "runtime/protocol/text.ts",
    words: /new Text(?:En|De)coder\(/,
    but: OWN,
  },
  {
    // A timer that keeps no process alive is not among them.
    use: "sleep, nextTurn, within or waitFor",
    home: "runtime/transport/timers.ts",
    words:
      /new Promise(?:<\w+>)?\(\((\w+)\) => set(?:Timeout|Immediate)\(\1\b(?![^\n]*\.unref)|^(?:export )?const (?:sleep|pause|within|waitFor|nextTurn|MAX_TIMER_MS) =/m,
    but: OWN,
  },
  {
    use: "isLevel, or checkLevel of runtime/transport/checks.ts,",
    home: "runtime/protocol/message.ts",
    words: />= 0 && \w+ <= (?:FRONT_LEVEL|10)\b/,
  },
]

const root = fileURLToPath(new URL("..", import.meta.url))

test("imports follow the table", () => {
  const sources = sourcesBelow("runtime", "plugins", "actors", "test/kit")
  expect(sources.size).toBeGreaterThan(0)
  expect(violations(sources, table)).toEqual([])
})

test("what stands in one module is defined in no other", () => {
  expect(repeated(sourcesBelow("runtime", "plugins"), singles)).toEqual([])
})

// All of effect is a tenth of what a worker needs of memory, and of its start.
test("only the modules of effect that are needed are loaded", () => {
  const whole = [...sourcesBelow("runtime", "plugins")].filter(([path, source]) =>
    importsOf(path, source).some(({ target, kind }) => target === "effect" && kind !== "type"),
  )
  expect(whole.map(([path]) => path)).toEqual([])
})

// Each worker has a lease thread, which loads its modules anew.
test("a lease thread starts without the runtime of effect and without codecs", () => {
  const sources = sourcesBelow("runtime", "plugins")
  const loaded = new Set<string>()
  const load = (path: string): void => {
    if (loaded.has(path)) return
    loaded.add(path)
    const imports = importsOf(path, sources.get(path) ?? "")
    // Transports are loaded by the scheme of a URL.
    const isNeeded = path === "runtime/connection/builtin.ts" ? () => true : (kind: string) => kind === "value"
    for (const { target, kind } of imports) if (isNeeded(kind)) load(target)
  }
  load("runtime/worker/leases/lease-thread.ts")
  expect(loaded).toContain("plugins/nats/mod.ts")
  expect([...loaded].filter((path) => /^(effect\/(?!Result$)|yaml$|@msgpack)/.test(path))).toEqual([])
})

test("an actor's own files are those of no other actor", () => {
  const sources = sourcesBelow("actors")
  const external = [...sources].flatMap(([path, source]) => {
    const own = `${path.split("/")[1]?.replace(/\.[a-z]+$/, "")}`
    return importsOf(path, source)
      .filter(({ target }) => target.startsWith("actors/") && target.split("/")[1]?.replace(/\.[a-z]+$/, "") !== own)
      .map(({ target }) => `${path} imports ${target}`)
  })
  expect(external).toEqual([])
})

describe("rooms", () => {
  const sources = sourcesBelow("runtime", "plugins")
  const rooms = roomsOf(readFileSync(join(root, "ARCHITECTURE.md"), "utf8"))
  const count = (pattern: RegExp) => [...sources.keys()].filter((path) => pattern.test(path)).length

  test("every file has a room in the list of ARCHITECTURE.md", () => {
    expect(homeless(sources, rooms)).toEqual([])
  })

  test("imports run down the list", () => {
    expect(arrowsUp(sources, rooms)).toEqual([])
  })

  test("no import runs in a circle, neither between files nor between what lies in one folder", () => {
    expect(fileCircles(sources)).toEqual([])
    expect(folderCircles(sources)).toEqual([])
  })

  test("few files lie loose in the runtime", () => {
    expect(count(/^runtime\/[^/]+$/)).toBeLessThanOrEqual(8)
  })

  // This number may only fall: a change that removes files lowers it here.
  const records = {
    "files in worker": 61,
  }

  test("the worker does not grow", () => {
    expect({ "files in worker": count(/^runtime\/worker\//) }).toEqual(records)
  })
})

test.each(["ARCHITECTURE.md", "CONTRIBUTING.md"])("the files and folders that %s names are there", (page) => {
  // A path from the root or from the runtime; `<name>` stands for any plugin.
  const named = [...readFileSync(join(root, page), "utf8").matchAll(/`((?!callboard\/)[\w-]+\/[\w/<>.-]*)`/g)]
  const paths = named.map(([, path = ""]) => path.replace("<name>", "memory"))
  expect(paths.length).toBeGreaterThan(20)
  expect(
    paths.filter((path) => !["", "runtime", "runtime/worker"].some((above) => existsSync(join(root, above, path)))),
  ).toEqual([])
})

// Durations are measured by the monotonic clock, which is never set. What is stored or shown has a time of day.
test("few files of the worker ask for the time of day", () => {
  const asking = [...sourcesBelow("runtime/worker")].flatMap(([path, source]) =>
    /\bDate\.now\(\)/.test(source) ? path.replace(/^.*runtime\/worker\//, "") : [],
  )
  expect(asking.sort()).toEqual([
    "leases/blocked.ts",
    "limits/limiter.ts",
    "limits/postponements.ts",
    "maintenance/dependents.ts",
    "maintenance/lost-jobs.ts",
    "run/job-context.ts",
    "telemetry/event-emitter.ts",
  ])
})

test("every plugin is an entry point for Deno too, whose table has no wildcard", () => {
  const { imports } = JSON.parse(readFileSync(join(root, "deno.json"), "utf8"))
  const named = Object.keys(imports).flatMap((name) => name.match(/^callboard\/plugins\/(.+)$/)?.[1] ?? [])
  const present = [...sourcesBelow("plugins").keys()].flatMap(
    (path) => path.match(/^plugins\/([^/]+)\/mod\.ts$/)?.[1] ?? [],
  )
  expect(named).toEqual(expect.arrayContaining(present))
})

describe("the checker finds", () => {
  const cases: readonly [path: string, code: string, complaint: string | undefined][] = [
    ["runtime/protocol/task.ts", `import * as Result from "effect/Result"`, undefined],
    ["runtime/protocol/task.ts", `import * as Effect from "effect/Effect"`, "imports effect/Effect"],
    ["runtime/protocol/task.ts", `import { Result } from "effect"`, "imports effect"],
    ["runtime/protocol/task.ts", `import { a } from "../client/client.ts"`, "imports runtime/client/client.ts"],
    ["runtime/protocol/task.ts", `import { readFile } from "node:fs"`, "imports node:fs"],
    ["runtime/protocol/task.ts", `const now = Date.now()`, "says Date.now"],
    ["runtime/protocol/task.ts", `const now = new Date()`, "says new Date()"],
    ["runtime/protocol/task.ts", `const then = new Date(ms) // not Date.now()`, undefined],
    ["runtime/protocol/task.ts", `const text = "Math.random()"`, undefined],
    ["runtime/protocol/task.ts", "const text = `$" + "{Math.random()}`", "says Math.random"],
    ["runtime/protocol/task.ts", `const id = crypto.randomUUID()`, "says crypto"],
    ["runtime/protocol/task.ts", `const zone = process.env.TZ`, "says process."],
    ["runtime/protocol/task.ts", `await fetch(url)`, "says fetch("],
    ["runtime/transport/mod.ts", `import type { Effect } from "effect"`, "imports effect"],
    ["runtime/connection/builtin.ts", `const nats = () => import("../../plugins/nats/mod.ts")`, undefined],
    ["runtime/connection/builtin.ts", `import { plugin } from "../../plugins/nats/mod.ts"`, "statically"],
    [
      "runtime/client/client.ts",
      `const nats = () => import("../../plugins/nats/mod.ts")`,
      "imports plugins/nats/mod.ts",
    ],
    ["runtime/client/client.ts", `export * from "../../test/kit/mod.ts"`, "imports test/kit/mod.ts"],
    ["runtime/client/client.ts", `import { readFile } from "node:fs/promises"`, undefined],
    ["runtime/client/client.ts", `import { connect } from "nats"`, "imports nats"],
    ["runtime/client/client.ts", `import { Hono } from "hono"`, "imports hono"],
    ["runtime/client/client.ts", `export interface A {\n  readonly "hono": 1\n}`, undefined],
    ["runtime/client/client.ts", `const x = 1\nimport "hono"`, "imports hono"],
    ["runtime/http/app.ts", `import { streamSSE } from "hono/streaming"`, undefined],
    ["runtime/page/app.tsx", `import { render } from "preact"\nconst a = <p title="it's">x</p>`, undefined],
    ["runtime/page/app.tsx", `import type { Job } from "../jobs/responses.ts"`, undefined],
    ["runtime/page/app.tsx", `import { Job } from "../jobs/responses.ts"`, "imports runtime/jobs/responses.ts"],
    ["runtime/page/app.tsx", `import { type Job } from "../jobs/responses.ts"`, "imports runtime/jobs/responses.ts"],
    ["runtime/page/app.tsx", `import type { Client } from "../client/client.ts"`, "imports runtime/client/client.ts"],
    ["runtime/page/app.tsx", `const isTest = process.env["TEST"]`, "says process."],
    ["runtime/page/app.tsx", `const isTest = attempt.process.id`, undefined],
    [
      "runtime/page/app.tsx",
      `const a = <p dangerouslySetInnerHTML={{ __html: text }} />`,
      "says dangerouslySetInnerHTML",
    ],
    ["runtime/page/app.tsx", `const a = <p style={width} />`, "says style="],
    ["runtime/metrics/metrics.ts", `import { Registry } from "prom-client"`, undefined],
    ["runtime/worker/counts.ts", `import { Counter } from "prom-client"`, "imports prom-client"],
    ["runtime/tracing/context.ts", `import type { Context } from "@opentelemetry/api"`, undefined],
    ["runtime/client/client.ts", `import type { Tracer } from "@opentelemetry/api"`, "imports @opentelemetry/api"],
    ["runtime/cli/main.ts", `import { Command } from "commander"`, undefined],
    ["runtime/worker/worker.ts", `import { main } from "../cli/main.ts"`, "imports runtime/cli/main.ts"],
    ["plugins/nats/mod.ts", `import {\n  connect,\n} from "nats"`, undefined],
    ["plugins/memory/mod.ts", `import { connect } from "nats"`, "imports nats"],
    ["plugins/nats/mod.ts", `import { Sorted } from "../memory/sorted.ts"`, "imports plugins/memory/sorted.ts"],
    [
      "plugins/nats/mod.ts",
      `new Worker(new URL("../../runtime/supervisor.ts", import.meta.url))`,
      "imports runtime/supervisor.ts",
    ],
    ["actors/text.ts", `import { actor } from "callboard"\nimport sharp from "sharp"`, undefined],
    ["actors/text.ts", `import { actor } from "../runtime/actor/actor.ts"`, "imports runtime/actor/actor.ts"],
    ["test/kit/mod.ts", `import { test } from "vitest"`, "imports vitest"],
    ["elsewhere/file.ts", ``, "no direction names it"],
  ]
  test.each(cases)("%s: %s", (path, code, complaint) => {
    const found = violations(new Map([[path, code]]), table)
    if (complaint === undefined) expect(found).toEqual([])
    else expect(found.join("\n")).toContain(complaint)
  })

  test.each([
    [`if (typeof value === "object" && value !== null) return`, "use isObject"],
    [`if (typeof value.at !== "object" || value.at === null) return`, "use isObject"],
    [`const isMap = (value: unknown) => value instanceof Map`, "use isObject"],
    [`const encoder = new TextEncoder()`, "use encoder"],
    [`new TextDecoder("utf-8", { fatal: true }).decode(bytes)`, "of runtime/protocol/text.ts"],
    [`await new Promise((resolve) => setTimeout(resolve, 5))`, "use sleep"],
    [`const within = (ms: number) => later(ms)`, "use sleep"],
    [`if (isObject(value)) return`, undefined],
    [`if (typeof value === "object") return`, undefined],
    [`// typeof value === "object" && value !== null`, undefined],
  ])("what another module has: %s", (code, complaint) => {
    const found = repeated(new Map([["runtime/client/client.ts", code]]), singles)
    if (complaint === undefined) expect(found).toEqual([])
    else expect(found.join("\n")).toContain(complaint)
  })

  const rooms = roomsOf(
    "## Before\n\n| `no/` | room |\n\n## Rooms\n\n| room | what |\n|---|---|\n| `high/`, `mod.ts` | `this` |\n| `low/` | |\n",
  )

  test("rooms in the list, and files without one", () => {
    expect(rooms).toEqual([["runtime/high/", "runtime/mod.ts"], ["runtime/low/"]])
    const sources = new Map(
      ["high/a.ts", "mod.ts", "low/a.ts", "lower/a.ts", "a.ts"].map((path) => [`runtime/${path}`, ""]),
    )
    expect(homeless(sources, rooms)).toEqual(["runtime/lower/a.ts", "runtime/a.ts"])
  })

  test.each([
    `import type { A } from "../high/a.ts"`,
    `export * from "../mod.ts"`,
    `const a = await import("../high/a.ts")`,
    `let a: import("../high/a.ts").A`,
    `new URL("../high/a.ts", import.meta.url)`,
  ])("the arrow up in %s", (code) => {
    const sources = new Map([
      ["runtime/high/a.ts", `import { a } from "../low/a.ts"`],
      ["runtime/mod.ts", `import { a } from "./high/a.ts"`],
      ["runtime/low/a.ts", code],
      ["runtime/low/b.ts", `import { a } from "./a.ts"`],
    ])
    const up = arrowsUp(sources, rooms)
    expect(up).toHaveLength(1)
    expect(up[0]).toContain("runtime/low/ → runtime/high/: runtime/low/a.ts imports runtime/")
  })

  test("one arrow up for two imports between the same rooms", () => {
    const sources = new Map([
      ["runtime/high/a.ts", ""],
      ["runtime/low/a.ts", `import { a } from "../high/a.ts"`],
      ["runtime/low/b.ts", `import { a } from "../high/a.ts"`],
    ])
    expect(arrowsUp(sources, rooms)).toHaveLength(1)
  })

  test("circles of files and of folders, those of types too", () => {
    const sources = new Map([
      ["runtime/a/one.ts", `import type { b } from "../b/one.ts"`],
      ["runtime/a/two.ts", ""],
      ["runtime/b/one.ts", `import { c } from "../c.ts"`],
      ["runtime/c.ts", `import { a } from "./a/two.ts"`],
      ["runtime/d.ts", `import { a } from "./a/one.ts"`],
    ])
    expect(folderCircles(sources)).toEqual([["runtime/a", "runtime/b", "runtime/c.ts"]])
    expect(fileCircles(sources)).toEqual([])
    sources.set("runtime/a/two.ts", `export type { a } from "./one.ts"`)
    expect(fileCircles(sources)).toEqual([["runtime/a/one.ts", "runtime/a/two.ts", "runtime/b/one.ts", "runtime/c.ts"]])
  })
})
