/**
 * Broken builds of durable steps, each made by changing a line of the source. Without a death each of them ends as it must;
 * `chaos -- steps-faults` must catch each of them by a death.
 */
import { cpSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { bundled } from "../support/servers/bundle.ts"
import { removeAtEnd, temporaryFolder } from "../support/servers/process.ts"

export interface StepMutant {
  readonly name: string
  /** The flow in which the fault shows. */
  readonly flow: string
  readonly file: string
  readonly from: string
  readonly to: string
}

export const stepMutants: ReadonlyArray<StepMutant> = [
  {
    name: "entry-late",
    flow: "plain",
    file: "runtime/steps/calls.ts",
    from: `this.bytes = await port.note({ kind: "ok", ...noted, value })`,
    to: `setTimeout(() => void port.note({ kind: "ok", ...noted, value }), 100)`,
  },
  {
    name: "no-open",
    flow: "plain",
    file: "runtime/steps/journal.ts",
    from: `return this.#writeAll([{ kind: "open", fence, at, claims } as const, ...outcomes].map(waiting))`,
    to: "return 1",
  },
  {
    name: "no-fence",
    flow: "plain",
    file: "runtime/steps/journal.ts",
    from: "store.write([{ key, value, expect }])",
    to: "store.write([{ key, value }])",
  },
  {
    name: "shared-write-early",
    flow: "parallel",
    file: "runtime/steps/journal.ts",
    from: "this.#queue.push({ entry, text, resolve, reject })",
    to: "this.#queue.push({ entry, text, resolve, reject }) && this.#writing && resolve()",
  },
  {
    name: "failure-runs-again",
    flow: "caught",
    file: "runtime/steps/fold.ts",
    from: "step.failure !== undefined && retries !== undefined && step.retries !== retries && folded.ending === undefined",
    to: "step.failure !== undefined && retries !== undefined && folded.ending === undefined",
  },
  {
    name: "second-worker-reverts-nothing",
    flow: "saga",
    file: "runtime/worker/run/step-session.ts",
    from: "if (!this.#run.record.reverts) {",
    to: "if (!this.#run.record.reverts || !this.#fresh) {",
  },
  {
    name: "reverts-again",
    flow: "saga",
    file: "runtime/steps/fold.ts",
    from: `step?.state === "reverted"`,
    to: "step === null",
  },
  {
    name: "in-any-order",
    flow: "cancelled",
    file: "runtime/steps/fold.ts",
    from: "Number.MAX_SAFE_INTEGER - reached.length + at",
    to: "at - reached.length",
  },
  {
    name: "unknown-stays-done",
    flow: "cancelled",
    file: "runtime/steps/fold.ts",
    from: "(folded.steps.has(name) || !folded.ending?.sure)",
    to: "folded.steps.has(name)",
  },
]

const root = fileURLToPath(new URL("../../", import.meta.url))

/** The source of the changed file. Throws unless the file contains the line exactly once. */
export const mutantSource = ({ name, file, from, to }: StepMutant): string => {
  const source = readFileSync(join(root, file), "utf8")
  if (source.split(from).length !== 2) throw new Error(`${name}: ${file} does not have exactly one ${from}`)
  return source.replace(from, () => to)
}

/** Makes a build with this fault. Returns the path of its `test/chaos/step-worker.ts`. */
export const mutantWorker = (mutant: StepMutant): string => {
  const { name, file } = mutant
  const { path } = temporaryFolder()
  removeAtEnd(path)
  for (const part of ["runtime", "plugins", "package.json", "tsconfig.json"])
    cpSync(join(root, part), join(path, part), { recursive: true })
  for (const part of ["step-worker.ts", "step-flows.ts"])
    cpSync(join(root, "test/chaos", part), join(path, "test", name, part))
  symlinkSync(join(root, "node_modules"), join(path, "node_modules"))
  writeFileSync(join(path, file), mutantSource(mutant))
  return bundled(join(path, "test", name, "step-worker.ts"))
}
