/** The scenarios on NATS: `npm run test:scenarios`. `npm test` has them on memory and sqlite, `npm run test:interop` on Redis. */
import { scenarios } from "./suites.js"
import config from "./vitest.config.ts"

const { env, ...test } = config.test ?? {}

export default { ...config, test: { ...test, include: scenarios, env: { ...env, CALLBOARD_TEST_BOARDS: "nats" } } }
