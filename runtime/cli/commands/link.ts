/** `callboard link ID`: prints a token for one job, signed with the `http.linkSecret` of the settings. */
import type { Command } from "commander"
import { makeLink } from "../../http/link.ts"
import { compact } from "../../protocol/compact.ts"
import { localTime } from "../format.ts"
import { fullId, ID_HELP } from "../input.ts"
import { runs } from "../invocation.ts"

interface Options {
  readonly scopes?: string
  readonly ttl?: string
}

export const addLink = (program: Command): void => {
  const command = program
    .command("link")
    .description("make a token for one job, for a web page or a person without access to the others")
    .argument("<id>", ID_HELP)
    .option("--scopes <scopes>", "read, operate or both, and no-payload (default: read)")
    .option("--ttl <duration>", "how long it is valid, at most 30 days (default: 1 day)")
  runs(command, ({ config, output, withClient }) => {
    const { scopes, ttl } = command.opts<Options>()
    const options = compact({ scopes: scopes?.split(",").map((each) => each.trim()), ttl })
    return withClient(async (client) => {
      const id = await fullId(client, command.args[0] ?? "")
      const issuer = { secret: config.http?.linkSecret, may: () => true }
      const link = await makeLink(client.connection, issuer, id, options)
      if (output.json) return output.document(link)
      output.line(link.token)
      output.note(`callboard: valid until ${localTime(link.expires)} for ${link.scopes.join(", ")} of job ${id}`)
    })
  })
}
