/** Broken builds of durable steps, each made by changing a line of the source. `chaos -- steps-faults` must catch each of them. */
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
    from: `this.bytes = await port.note({ kind: "ok", ...noted(), value })`,
    to: `setTimeout(() => void port.note({ kind: "ok", ...noted(), value }), 100)`,
  },
  {
    name: "no-open",
    flow: "plain",
    file: "runtime/steps/journal.ts",
    from: `await this.#write([waiting({ kind: "open", fence, at, claims })])`,
    to: "1",
  },
  {
    name: "no-fence",
    flow: "plain",
    file: "runtime/steps/journal.ts",
    from: "store.write([{ key, value, expect }])",
    to: "store.write([{ key, value }])",
  },
  {
    name: "first-reverted-first",
    flow: "saga",
    file: "runtime/steps/fold.ts",
    from: "other.order - one.order",
    to: "one.order - other.order",
  },
  {
    name: "one-stays-done",
    flow: "saga",
    file: "runtime/steps/engine.ts",
    from: "toRevert(folded, [...this.#reverts.keys()])",
    to: "toRevert(folded, [...this.#reverts.keys()]).slice(0, -1)",
  },
  {
    name: "reverts-again",
    flow: "saga",
    file: "runtime/steps/fold.ts",
    from: `step?.state === "reverted"`,
    to: "step === null",
  },
  {
    name: "no-mark",
    flow: "saga",
    file: "runtime/steps/engine.ts",
    from: "if (plan.revert !== undefined && !this.#marked)",
    to: "if (false)",
  },
  {
    name: "cancel-forgets",
    flow: "cancelled",
    file: "runtime/jobs/commands/cancel.ts",
    from: "if (record.reverts && !terminate) return toBeUndone(record, now)",
    to: "",
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
