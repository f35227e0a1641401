import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

const root = fileURLToPath(new URL("..", import.meta.url))

export default defineConfig({
  root,
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 20_000,
    // A hook may be the first to fetch a server.
    hookTimeout: 120_000,
    // Most tests wait for servers and clocks: two files at a time fit on two cores.
    maxWorkers: 2,
    // Vitest's forks do not start on Bun, its threads miss a function on Deno.
    pool: "bun" in process.versions ? "threads" : "forks",
  },
  resolve: {
    // The published names mean the sources here, as in tsconfig.json and deno.json.
    alias: [
      { find: /^callboard$/, replacement: `${root}runtime/mod.ts` },
      { find: /^callboard\/(transport|testing)$/, replacement: `${root}runtime/$1.ts` },
      { find: /^callboard\/conformance$/, replacement: `${root}test/kit/mod.ts` },
      { find: /^callboard\/plugins\/([^/]+)$/, replacement: `${root}plugins/$1/mod.ts` },
    ],
  },
})
