/** The tests with Celery, and the scenarios on its broker: `npm run test:interop`. */
import { interopTests } from "./suites.js"
import config from "./vitest.config.ts"

const { env, ...test } = config.test ?? {}

export default {
  ...config,
  test: { ...test, include: interopTests, maxWorkers: 2, env: { ...env, CALLBOARD_TEST_BOARDS: "redis" } },
}
