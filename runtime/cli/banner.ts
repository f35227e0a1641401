/** The lines that `dev` and `worker` print on a terminal when they are ready: actors, queues, transport, address. */
import type { ActorDefinition } from "../actor/actor.ts"
import { VERSION } from "../version.ts"
import { columns, type Output } from "./output.ts"

type Row = readonly [name: string, value: string]

/** A row for each actor, with its methods. */
export const actorRows = (actors: ReadonlyArray<ActorDefinition>): ReadonlyArray<Row> =>
  actors.map(({ name, methods }, at) => [at === 0 ? "actors" : "", `${name}: ${[...methods.keys()].join(", ")}`])

export const printBanner = (output: Output, rows: ReadonlyArray<Row>): void => {
  const { bun, deno } = process.versions
  const runtime = bun === undefined ? `Deno ${deno}` : `Bun ${bun}`
  output.line(`${output.paint(`callboard ${VERSION}`, "bold")} on ${runtime}\n`)
  output.line(columns(rows.map(([name, value]) => [`  ${output.paint(name, "dim")}`, value])))
}
