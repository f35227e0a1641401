/** What `cancel`, `retry` and `delete` have in common: the same decision about several jobs, each on its own. */
import type { Client } from "../../client/client.ts"
import type { JobHandle } from "../../jobs/handle.ts"
import type { JobView } from "../../jobs/view.ts"
import { TransportError } from "../../transport/mod.ts"
import { CommandFailed, EXIT, lineOf } from "../failure.ts"
import { stateText } from "../format.ts"
import { fullId } from "../job-id.ts"
import type { Output } from "../output.ts"

interface Decided {
  readonly id: string
  readonly job?: JobView
  readonly error?: { readonly message: string }
}

/**
 * Decides about each job. One that is refused does not stop the others, and makes the command fail at the end; a
 * transport that is gone ends it at once.
 */
export const decideAll = async (
  client: Client,
  output: Output,
  ids: Iterable<string> | AsyncIterable<string>,
  decide: (handle: JobHandle) => Promise<JobView | undefined>,
  done: string,
): Promise<void> => {
  const all: Array<Decided> = []
  for await (const given of ids) {
    try {
      const id = await fullId(client, given)
      const job = await decide(client.job(id))
      all.push({ id, ...(job === undefined ? {} : { job }) })
      if (!output.json) output.line(`${id}  ${job === undefined ? done : stateText(output.paint, job.state)}`)
    } catch (error) {
      if (error instanceof TransportError) throw error
      all.push({ id: given, error: { message: lineOf(error) } })
      if (!output.json) output.note(`callboard: ${lineOf(error)}`)
    }
  }
  if (output.json) output.document(all)
  if (all.some((each) => each.error !== undefined)) throw new CommandFailed(EXIT.failed)
}
