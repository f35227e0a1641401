/**
 * All test files and the stages that they belong to. No other file lists them. Plain JavaScript, because `npm test` reads it
 * under Node.
 */

import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))

/** Every test file, as a path from the root of the repository. */
const allFiles = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" })
  .map((file) => `test/${file.replaceAll("\\", "/")}`)
  // The benchmark installs what it compares with into a folder of its own.
  .filter((file) => file.endsWith(".test.ts") && !file.includes("/node_modules/"))
  .sort()

/** Tests in a browser: a stage of their own, since the browser must be fetched for them. */
export const pageTests = allFiles.filter((file) => file.startsWith("test/page/"))

/** Tests with Celery: a stage of their own, since Celery and its servers must be fetched for them. */
const withCelery = allFiles.filter((file) => /^test\/(interop|unit\/plugins\/redis)\//.test(file))

/** Tests that pack and install the package, or compile the examples of the pages: a stage of their own, since they take long. */
export const packageTests = allFiles.filter((file) => file.startsWith("test/cli/package"))

export const testFiles = allFiles.filter((file) => ![...pageTests, ...withCelery, ...packageTests].includes(file))

/** The scenarios that users rely on. They hold on every transport; those on transports with a server run in stages of their own. */
export const scenarios = testFiles.filter((file) => file.startsWith("test/scenarios/"))

/** The scenarios and the short chaos runs are tried on that broker as well. */
export const interopTests = [...withCelery, ...scenarios, "test/chaos/chaos.test.ts"]

/** Matches files that start a server or a process, use a board that processes share, or run the kit. */
const starters =
  /\b(startNats|startNatsCluster|driversOnNats|startPostgres|spawnProcess|spawnScript|makeProject|onEveryBoard|sharedBoards|runConformance)\b|node:child_process|kit\/(mod|conformance|run|driver\/run)\.ts/

/** Matches files that run the conformance kit. */
const kits =
  /kit\/(mod|conformance|run|driver\/run|mutants|driver\/mutants)\.ts|amqp-kit\.ts|\b(runConformance|driversOnNats)\b/

/** Tests of what runs side by side, in the contract of transports: one that fails now and then may have seen a race. */
export const raceTests = allFiles.filter(
  (file) => file.startsWith("test/unit/runtime/transport/") || kits.test(readFileSync(join(root, file), "utf8")),
)

/** Tests that mostly wait for intervals of real time: each text is a part of the file's path. */
const waiting = [
  "test/scenarios/",
  "test/chaos/",
  "unit/actors/",
  "test/faults/",
  ...["nats/connection/inbox", "sqlite/driver", "sqlite/full", "sqlite/gone"].map(
    (name) => `unit/plugins/${name}.test`,
  ),
  ...[
    ...["board/lost", "celery/completion", "http/outage", "jobs/tracking/finding"],
    ...["schedules/scheduler", "service/serve"],
    ...[
      "transport/job-store/watch-store",
      "worker/clock",
      "worker/set-clock",
      "worker/failures",
      "worker/hooks",
      "worker/leases/lease-keeper",
    ],
    ...["worker/limits/permits", "worker/restart", "worker/run/faults"],
    // They compute for seconds: each write of many handlers, cut before and after; services for each of many cases.
    ...["testing/crashes", "jobs/outcome/follow-ups", "worker/worker", "client/conductor", "client/http-client"],
    ...["boards", "dependencies", "idempotency", "job", "list", "service"].map((name) => `http/${name}`),
  ].map((name) => `unit/runtime/${name}.test`),
]

/** Unit tests: they need little time and no other process, so their files match neither of the lists above. */
export const unitTests = testFiles.filter(
  (file) => !waiting.some((part) => file.includes(part)) && !starters.test(readFileSync(join(root, file), "utf8")),
)

/**
 * The files that take longest. They begin first, so that none of them runs alone at the end; files that compute stand between files
 * that wait. Each text is a part of a file's path. Vitest remembers durations as well, but not on a new machine.
 */
export const longest = [
  "interop/amqp-kit-",
  "e2e/broker-loss",
  "scenarios/workers",
  "nats/nats.test",
  "kit-driver",
  "faults/",
  "cli/worker",
  "kit.test",
  "unit/plugins/postgres/kit",
  "scenarios/limits",
  "scenarios/schedules",
  "scenarios/board-leases",
  "chaos/",
  "sqlite/sqlite",
  "docs.test",
  "e2e/acks",
  "e2e/limits",
  "scenarios/limit-order",
  "scenarios/lost-workers",
  "e2e/stopping",
  "e2e/",
  "worker/isolation",
  "nats/order",
  "worker/acks",
  "scenarios/",
  "cli/",
  "unit/plugins/",
  "unit/runtime/log/log.test",
  "unit/runtime/http/outage",
  "unit/runtime/service/serve",
  "unit/runtime/worker/clock",
]

/**
 * Tests that also run on Deno, since their result can differ there: they read or write the wire, a store or a socket. The code
 * behind a route is the same on both runtimes. Each text is a part of a file's path.
 */
export const denoTests = [
  // Bytes, texts and dates, which each engine reads and writes in its own way.
  ...["body", "celery-vectors", "codec/", "envelope", "headers", "record", "time", "value"].map(
    (name) => `test/unit/runtime/protocol/${name}`,
  ),
  "test/unit/plugins/memory/",
  "test/unit/plugins/sqlite/",
  // Without the kit: only the connection can differ on Deno, and these tests use it.
  "test/unit/plugins/postgres/postgres.test",
  ...["connect", "faults", "names", "nats.test", "stall-guard"].map((name) => `test/unit/plugins/nats/${name}`),
  ...["access", "connecting", "events", "server", "submit"].map((name) => `test/unit/runtime/http/${name}`),
  "test/unit/runtime/client/http-client",
  "test/unit/runtime/board/smoke",
  // The virtual clock replaces globals of the runtime.
  "test/unit/runtime/testing/virtual-clock",
  // Threads, and what they do while the main one is blocked, are the runtime's own.
  "test/e2e/blocked",
  "test/e2e/http",
  "test/support/servers/process",
]

/**
 * Tests that also run on Node, in a stage of their own: its server, its threads and processes, `node:sqlite`, the command line. Each
 * text is a part of a file's path.
 */
export const nodeTests = [
  ...["actor/", "cli/", "client/", "http/", "platform/", "service/"].map((name) => `test/unit/runtime/${name}`),
  ...["isolation", "leases/", "restart"].map((name) => `test/unit/runtime/worker/${name}`),
  ...["memory/", "sqlite/", "nats/connect"].map((name) => `test/unit/plugins/${name}`),
  "test/e2e/",
  ...["dev", "worker", "pool-http"].map((name) => `test/cli/${name}.test`),
  "test/chaos/chaos.test",
  "test/support/servers/process",
]
