/** `callboard revoke HEADER=VALUE…`: cancels every task with that header, until the revocation expires. */
import type { Command } from "commander"
import type { Revocation } from "../../cluster/revocation.ts"
import { wrongUsage } from "../failure.ts"
import { localTime } from "../format.ts"
import { runs } from "../invocation.ts"
import type { Output } from "../output.ts"

interface Options {
  readonly ttl?: string
  readonly terminate?: true
  readonly list?: true
  readonly lift?: string
}

const show = (output: Output, revocations: ReadonlyArray<Revocation>): void => {
  const rows = revocations.map(({ id, header, values, until }) => [id, header, values.join(", "), localTime(until)])
  output.table(["ID", "HEADER", "VALUES", "UNTIL"], rows, "no revocations")
}

/** Groups values by header: `tenant=acme tenant=other` is one header with two values. */
const meantBy = (
  pairs: ReadonlyArray<string>,
): { readonly header: string; readonly values: [string, ...Array<string>] } => {
  const [first = "", ...others] = pairs
  const header = first.slice(0, Math.max(0, first.indexOf("=")))
  const valueOf = (pair: string): string =>
    header !== "" && pair.startsWith(`${header}=`)
      ? pair.slice(header.length + 1)
      : wrongUsage(`revoke: write header=value, all of one header, not ${pair}`)
  return { header, values: [valueOf(first), ...others.map(valueOf)] }
}

export const addRevoke = (program: Command): void => {
  const command = program
    .command("revoke")
    .description("cancel every task that carries a header, waiting, running, or still to come")
    .argument("[header=value...]", "one header, with one or more values")
    .option("--ttl <duration>", "how long it holds (default: 3 hours)")
    .option("--terminate", "end the handlers of isolated methods at once")
    .option("--list", "show the revocations that hold")
    .option("--lift <id>", "end a revocation")
  runs(command, ({ output, withClient }) => {
    const { ttl, terminate, list, lift } = command.opts<Options>()
    const pairs = command.args
    if ([pairs.length > 0, list === true, lift !== undefined].filter(Boolean).length !== 1) {
      wrongUsage("revoke: give header=value, or --list, or --lift ID")
    }
    return withClient(async (client) => {
      if (lift !== undefined) return client.lift(lift)
      if (list) {
        const revocations = await client.revocations()
        return output.json ? output.document({ revocations }) : show(output, revocations)
      }
      const options = {
        ...meantBy(pairs),
        ...(ttl === undefined ? {} : { ttl }),
        ...(terminate === undefined ? {} : { terminate }),
      }
      const revocation = await client.revoke(options)
      return output.json ? output.document(revocation) : show(output, [revocation])
    })
  })
}
