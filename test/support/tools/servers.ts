/**
 * Finds every server that the tests need, and fetches what can be fetched: `npm test` calls it before the tests start.
 * Prints one line per server, with --interop also those that Celery needs; with --json, what test/support/servers/missing.ts reads from the environment.
 */

import type { Findings } from "../servers/missing.ts"
import { natsProgram, natsServerName } from "../servers/nats-program.ts"
import { postgresProgram, postgresServerName } from "../servers/postgres-program.ts"
import { rabbitmqProgram, rabbitmqServerName } from "../servers/rabbitmq.ts"
import { redisProgram, redisServerName } from "../servers/redis.ts"

const postgres = { name: postgresServerName, find: postgresProgram }
const nats = (["current", "old"] as const).map((release) => ({
  name: natsServerName(release),
  find: () => natsProgram(release),
}))

const brokers = [
  { name: redisServerName, find: redisProgram },
  { name: rabbitmqServerName, find: rabbitmqProgram },
]
const interop = process.argv.includes("--interop") ? brokers : []

const findings: Record<string, Findings[string]> = {}
for (const { name, find } of [...nats, postgres, ...interop]) {
  try {
    findings[name] = await find()
  } catch (error) {
    findings[name] = { missing: (error as Error).message.replace(`missing server: ${name} — `, "") }
  }
}

if (process.argv.includes("--json")) {
  console.log(JSON.stringify(findings))
} else {
  for (const [name, found] of Object.entries(findings)) {
    console.log(
      "missing" in found ? `missing server: ${name} — ${found.missing}` : `${name} ${found.version} ${found.path}`,
    )
  }
}
if (Object.values(findings).some((found) => "missing" in found)) process.exitCode = 1
