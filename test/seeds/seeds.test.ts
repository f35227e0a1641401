/**
 * The short form of the seeds; `npm run seeds` is the long one. They run in processes of their own, since what other tests
 * have left in this one is no part of the simulation.
 */
import { fileURLToPath } from "node:url"
import { expect, test } from "vitest"
import { keep } from "../support/servers/keep.ts"
import { type Spawned, spawnProcess, spawnScript } from "../support/servers/process.ts"
import { findDeno } from "../support/tools/deno.js"
import { plantNames } from "./plants.ts"

const main = fileURLToPath(new URL("main.ts", import.meta.url))

const SEEDS = 100
const ON_DENO = 50

/** Seeds within which a planted bug is found. */
const ENOUGH = 2_000

const answer = async (run: Spawned) => {
  const { code } = await keep(run).closed
  const { output } = run
  return { code, output, found: JSON.parse(output.trim().split("\n").at(-1) ?? "") }
}

test("seeds keep all promises, with the same traces on Bun and Deno", async () => {
  const here = await answer(spawnScript(main, ["--seeds", `${SEEDS}`]))
  expect(here, here.output).toMatchObject({ code: 0, found: { seeds: SEEDS, failed: [] } })
  const arguments_ = ["run", "-A", "--node-modules-dir=manual", main, "--seeds", `${ON_DENO}`]
  const onDeno = await answer(spawnProcess(findDeno(), arguments_))
  expect(onDeno, onDeno.output).toMatchObject({ code: 0, found: { seeds: ON_DENO, failed: [] } })
  const { hashes } = onDeno.found
  expect(hashes.length).toBeGreaterThan(1)
  expect(here.found.hashes.slice(0, hashes.length)).toEqual(hashes)
}, 300_000)

test("every planted bug is found, and its seed has the same trace again", async () => {
  const { code, output, found } = await answer(spawnScript(main, ["--plant", "all", "--seeds", `${ENOUGH}`]))
  expect(code, output).toBe(0)
  expect(Object.keys(found)).toEqual(plantNames)
  for (const name of plantNames) {
    const [seed] = found[name].failed
    expect(output).toContain(`0.000 seed ${seed}: `)
    expect(output).toContain(
      `seed ${seed} breaks a promise; again: npm run seeds -- --from ${seed} --seeds 1 --plant "${name}"`,
    )
  }
}, 300_000)
