import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"
import { longest, testFiles } from "./suites.js"

const root = fileURLToPath(new URL("..", import.meta.url))

/** The longest files first, so that none of them is alone at the end. */
class LongestFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = longest.findIndex((part) => moduleId.includes(`/test/${part}`))
      return at < 0 ? longest.length : at
    }
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}

export default defineConfig({
  root,
  test: {
    include: testFiles,
    // Most files wait for servers and clocks: more of them side by side than there are cores. On Deno each worker is a
    // process, which runs many files, but loads all modules for itself: about two seconds of a core.
    maxWorkers: "bun" in process.versions ? 5 : 2,
    // Longer than what a test waits for anything: that says more about what did not happen.
    testTimeout: 90_000,
    // A hook may be the first to fetch a server.
    hookTimeout: 120_000,
    // Vitest's forks do not start on Bun, its threads miss a function on Deno.
    pool: "bun" in process.versions ? "threads" : "forks",
    // Loading all modules anew for each file would take longer than the tests themselves.
    isolate: false,
    setupFiles: ["test/setup.ts"],
    // Concurrent cases, those of the conformance kit above all, wait most of their time.
    maxConcurrency: 8,
    sequence: { sequencer: LongestFirst },
  },
  resolve: {
    // The published names mean the sources here, as in tsconfig.json and deno.json.
    alias: [
      { find: /^callboard$/, replacement: `${root}runtime/mod.ts` },
      { find: /^callboard\/(transport|testing)$/, replacement: `${root}runtime/$1/mod.ts` },
      { find: /^callboard\/client$/, replacement: `${root}runtime/client/mod.ts` },
      { find: /^callboard\/conformance$/, replacement: `${root}test/kit/mod.ts` },
      { find: /^callboard\/plugins\/([^/]+)$/, replacement: `${root}plugins/$1/mod.ts` },
    ],
  },
})
