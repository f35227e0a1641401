/** The tests of the package: `npm run test:package`. It is packed once for all of them. */
import { packageTests } from "./suites.js"
import config from "./vitest.config.ts"

export default {
  ...config,
  test: { ...config.test, include: packageTests, maxWorkers: 2, globalSetup: "test/support/tools/pack.ts" },
}
