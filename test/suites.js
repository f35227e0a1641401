/**
 * Which test files there are, and what each needs: the one place that knows. Plain JavaScript, because `npm test` reads it
 * under Node.
 */

import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))

/** Every test file, as a path from the root of the repository. */
export const testFiles = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" })
  .map((file) => `test/${file.replaceAll("\\", "/")}`)
  .filter((file) => file.endsWith(".test.ts"))
  .sort()

/** What starts a server or a process, takes a board that processes share, or runs the kit. */
const starters =
  /\b(startNats|startNatsCluster|startPostgres|spawnProcess|spawnScript|makeProject|onEveryBoard|sharedBoards|runConformance)\b|node:child_process|kit\/(mod|run|driver\/run)\.ts/

/** A unit test needs this process alone: its file names nothing that starts another one. Scenarios take their time. */
export const unitTests = testFiles.filter(
  (file) => !/^test\/(scenarios|faults)\//.test(file) && !starters.test(readFileSync(join(root, file), "utf8")),
)

export const integrationTests = testFiles.filter((file) => !unitTests.includes(file))

/**
 * The files that take longest, begun first, so that none of them is alone at the end. Each is a part of a file's path;
 * Vitest remembers durations too, but not on a new machine.
 */
export const longest = [
  "e2e/broker-loss",
  "cli/worker",
  "e2e/crash",
  "cli/package",
  "kit.test",
  "scenarios/limits",
  "nats/order",
  "scenarios/workers",
  "scenarios/dependencies",
  "e2e/",
  "readme",
  "cli/",
  "chaos/",
  "scenarios/",
  "unit/plugins/nats/nats.test",
  "unit/plugins/sqlite/full",
  "unit/runtime/http/outage",
  "unit/runtime/service/serve",
  "unit/runtime/worker/clock",
  "unit/plugins/postgres/",
]

/**
 * What runs on Deno as well, since it can differ there: what reads or writes the wire, a store or a socket. What happens
 * behind a route is the same code on both. Each is a part of a file's path.
 */
export const denoTests = [
  "test/unit/runtime/protocol/",
  "test/unit/plugins/memory/",
  "test/unit/plugins/sqlite/",
  "test/unit/plugins/postgres/",
  ...["connect", "faults", "names", "nats.test", "stall-guard"].map((name) => `test/unit/plugins/nats/${name}`),
  ...["access", "connecting", "events", "server", "submit"].map((name) => `test/unit/runtime/http/${name}`),
  "test/unit/runtime/client/http-client",
  "test/e2e/http",
  "test/support/servers/",
]
