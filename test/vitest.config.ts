import { readFileSync, statfsSync } from "node:fs"
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

/** Bytes that the temporary folders of a whole run do not need together. */
const ROOM = 4e9

/** A folder in memory with room for all that servers write, from which programs can be started; not every machine has one. */
const folderInMemory = (): string | undefined => {
  const folder = "/dev/shm"
  try {
    const mounts = readFileSync("/proc/mounts", "utf8").split("\n")
    const { bavail, bsize } = statfsSync(folder)
    const isOpen = mounts.every((line) => line.split(" ")[1] !== folder || !line.includes("noexec"))
    return isOpen && bavail * bsize > ROOM ? folder : undefined
  } catch {
    // Another system than Linux.
    return undefined
  }
}

const temporary = process.env["TMPDIR"] ?? folderInMemory()

export default defineConfig({
  root,
  test: {
    include: testFiles,
    // Most files wait for servers and clocks: more of them side by side than there are cores. On Deno each worker is a
    // process, which runs many files, but loads all modules for itself: about two seconds of a core.
    maxWorkers: "bun" in process.versions ? 5 : 2,
    // Longer than what a test waits for anything: that says more about what did not happen.
    testTimeout: 90_000,
    // As long as other waits for a condition. By itself Vitest gives up after a second, which is little on a busy machine.
    expect: { poll: { timeout: 60_000 } },
    // A hook may be the first to fetch a server.
    hookTimeout: 120_000,
    // Vitest's forks do not start on Bun, its threads miss a function on Deno.
    pool: "bun" in process.versions ? "threads" : "forks",
    // Loading all modules anew for each file would take longer than the tests themselves.
    isolate: false,
    // Bun and Deno load TypeScript and know the published names by themselves. Through Vite, which no test needs, each
    // thread would take seconds of a core for its modules.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    // Tests end processes and never machines: that servers sync to a disk would only take their time.
    env: temporary === undefined ? {} : { TMPDIR: temporary },
    setupFiles: ["test/setup.ts"],
    // Concurrent cases, those of the conformance kit above all, wait most of their time.
    maxConcurrency: 8,
    sequence: { sequencer: LongestFirst },
  },
})
