/** The page in a browser: `npm run test:page`. One browser and one bundle of the page serve all of its files. */
import { pageTests } from "./suites.js"
import config from "./vitest.config.ts"

const test = {
  ...config.test,
  include: pageTests,
  globalSetup: ["test/page/setup.ts"],
  maxWorkers: 2,
  // Some tests open dozens of views, and axe looks at each: half a minute on one core of a fast machine.
  testTimeout: 300_000,
}

export default { ...config, test }
