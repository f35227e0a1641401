/** `callboard cancel`, `retry` and `delete`: one decision about each of several jobs. */
import type { Command } from "commander"
import type { Client } from "../../client/client.ts"
import type { JobHandle } from "../../jobs/handle.ts"
import type { JobView } from "../../jobs/view.ts"
import { TransportError } from "../../transport/mod.ts"
import { CommandFailed, EXIT, lineOf } from "../failure.ts"
import { stateText } from "../format.ts"
import { runs } from "../invocation.ts"
import { fullId, ID_HELP } from "../job-id.ts"
import type { Output } from "../output.ts"

interface Decided {
  readonly id: string
  readonly job?: JobView
  readonly error?: { readonly message: string }
}

/**
 * Applies a decision to each job. A job that refuses it does not stop the others, and makes the command fail at the end. A
 * transport that cannot be reached ends the command at once.
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

/** `callboard cancel ID…`: a waiting job will not run; the handler of a running job is told, and its outcome is refused. */
export const addCancel = (program: Command): void => {
  const command = program.command("cancel").description("cancel jobs").argument("<id...>", ID_HELP)
  command.option("--terminate", "end the handlers of isolated methods at once")
  command.option("--release", "jobs that wait for them need not wait any more, also if they were cancelled before")
  runs(command, ({ output, withClient }) => {
    const { terminate = false, release = false } = command.opts<{
      readonly terminate?: true
      readonly release?: true
    }>()
    return withClient((client) =>
      decideAll(client, output, command.args, (job) => job.cancel({ terminate, release }), "cancelled"),
    )
  })
}

/** `callboard delete ID…`: removes jobs; a waiting job will not run, and the outcome of a running job is refused. */
export const addDelete = (program: Command): void => {
  const command = program
    .command("delete")
    .description("forget jobs and what came of them")
    .argument("<id...>", ID_HELP)
  command.option("--dependents", "also those that wait for them")
  runs(command, ({ output, withClient }) => {
    const { dependents = false } = command.opts<{ readonly dependents?: true }>()
    const forget = async (job: JobHandle) => {
      await job.delete({ dependents })
      return undefined
    }
    return withClient((client) => decideAll(client, output, command.args, forget, "deleted"))
  })
}

/** `callboard retry ID…`: starts the next run of jobs that have ended. */
export const addRetry = (program: Command): void => {
  const command = program.command("retry").description("run ended jobs again").argument("<id...>", ID_HELP)
  runs(command, ({ output, withClient }) =>
    withClient((client) => decideAll(client, output, command.args, (job) => job.retry(), "queued")),
  )
}
