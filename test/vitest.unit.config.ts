/** The unit tests alone: `npm run test:unit`. Each further thread loads and compiles all modules anew. */
import { unitTests } from "./suites.js"
import config from "./vitest.config.ts"

export default { ...config, test: { ...config.test, include: unitTests, maxWorkers: 3 } }
