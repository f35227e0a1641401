/** `callboard board …`: posts to job boards, and works them off: list, claim, extend, consume, abandon, trash. */
import { hostname, userInfo } from "node:os"
import type { Command } from "commander"
import { stayAlive } from "../../async/timers.ts"
import type { Board } from "../../board/board.ts"
import { accepted } from "../../board/failure.ts"
import { parsePost } from "../../board/requests.ts"
import type { BoardJobView } from "../../board/view.ts"
import { CallboardError } from "../../errors.ts"
import { BOARD_PRIORITIES, notClaimed } from "../../protocol/board.ts"
import { compact, ifGiven } from "../../protocol/compact.ts"
import { CommandFailed, EXIT, wrongUsage } from "../failure.ts"
import { clockTime, listText, localTime, oneLine, timeText } from "../format.ts"
import { interruptible } from "../going-on.ts"
import { jsonOf, numberOrText } from "../input.ts"
import { runs } from "../invocation.ts"
import { columns, type Output } from "../output.ts"
import { limitOf } from "./jobs.ts"

/** Owner of claims that name none: the same for all commands of one user on one machine. */
const ownOwner = (): string => `${userInfo().username}@${hostname()}`

/**
 * How long a claim holds without `--expiry`, in seconds. The command ends at once, so that it cannot renew the claim.
 */
const DEFAULT_EXPIRY = 60

const expiryOf = (text: string): number | string | null => (text === "none" ? null : numberOrText(text))

const expiryText = ({ expiresIn }: BoardJobView): string =>
  typeof expiresIn === "number" ? `for ${expiresIn} s` : expiresIn === "DOES_NOT_EXPIRE" ? "until it is abandoned" : ""

const stepCells = ({ at, step, owner }: BoardJobView["story"][number]): ReadonlyArray<string> => [
  `  ${clockTime(new Date(at), true)}`,
  step,
  owner === undefined ? "" : `by ${owner}`,
]

const report = (job: BoardJobView, { paint, width }: Output): string => {
  const { book } = job
  const facts = [
    ["priority", job.priority],
    ["posted", localTime(job.createdAt)],
    ["details", JSON.stringify(job.details)],
    ...(book === null ? [] : [["book", `${book.name} ${book.uuid}`]]),
    ...(job.owner === null ? [] : [["owner", `${job.owner} ${expiryText(job)}, claim ${job.claim}`]]),
    ...(job.lastOwner === null ? [] : [["last owner", job.lastOwner]]),
  ]
  return [
    `${paint(oneLine(job.name), "bold")}  ${job.id}  ${job.state}`,
    columns(
      facts.map(([name = "", value = ""]) => [`  ${paint(name, "dim")}`, value]),
      width,
    ),
    "",
    columns(job.story.map(stepCells), width),
  ].join("\n")
}

const show = (output: Output, job: BoardJobView): void =>
  output.json ? output.document(job) : output.line(report(job, output))

/** Ids are not cut: they are what the next command needs. */
const table = (output: Output, jobs: ReadonlyArray<BoardJobView>, empty: string): void => {
  const rows = jobs.map((job) => [
    job.id,
    job.priority,
    job.owner ?? "",
    timeText(job.createdAt, output),
    oneLine(job.name),
  ])
  output.table(["ID", "PRIORITY", "OWNER", "POSTED", "NAME"], rows, empty)
}

interface Options {
  readonly owner?: string
  readonly expiry?: string
  readonly claim?: string
  readonly wait?: string
  readonly timeout?: string
  readonly limit: string
  readonly cursor?: string
  readonly unclaimed?: true
  readonly priority?: string
  readonly book?: string
}

type BoardCommand = (called: {
  readonly board: Board
  readonly output: Output
  /** The arguments after the name of the board. */
  readonly args: ReadonlyArray<string>
  readonly options: Options
  /** Fires with SIGINT and SIGTERM. */
  readonly signal: AbortSignal
}) => Promise<void>

const page = (command: Command): Command =>
  command
    .option("--limit <count>", "number of jobs on a page", "50")
    .option("--cursor <cursor>", "continue after this cursor")
const owner = (command: Command): Command => command.option("-o, --owner <owner>", "the owner (default: user@host)")
const held = (command: Command): Command =>
  owner(command).option("--claim <number>", "only if the current claim has this number")

const afterOf = ({ limit, cursor }: Options) => ({
  limit: limitOf(limit),
  ...compact({ after: cursor }),
})
const heldOf = ({ claim }: Options) => (claim === undefined ? {} : { claim: numberOf("--claim", claim) })
const numberOf = (flag: string, text: string): number =>
  /^\d{1,15}$/.test(text) ? Number(text) : wrongUsage(`${flag} ${text}: must be a whole number`)

const bookOf = (text: string): { readonly name: string; readonly uuid: string } => {
  const at = text.indexOf("=")
  return at < 0 ? wrongUsage(`--book ${text}: write name=uuid`) : { name: text.slice(0, at), uuid: text.slice(at + 1) }
}

/**
 * Waits for a job. Fails with {@link EXIT.timeout} where the command was given a longest wait, and none has come by then. A
 * command that was interrupted has not waited for so long.
 */
const inTime = async <A>(job: Promise<A>, longest: string | undefined, signal: AbortSignal): Promise<A> => {
  try {
    return await job
  } catch (cause) {
    const isOver = cause instanceof CallboardError && cause.code === "not-found" && !signal.aborted
    if (longest === undefined || !isOver) throw cause
    throw new CommandFailed(EXIT.timeout, cause.message)
  }
}

export const addBoard = (program: Command): void => {
  const command = program
    .command("board")
    .description("job boards: post jobs, and claim, extend, consume, abandon or trash them")
  const add = (
    usage: string,
    description: string,
    run: BoardCommand,
    flags: (command: Command) => Command = (same) => same,
  ) => {
    const [name = "", ...args] = usage.split(" ")
    const own = command.command(name).description(description).argument("<board>", "name of the board")
    for (const arg of args) own.argument(arg)
    runs(flags(own), ({ output, withClient }) =>
      withClient((client) =>
        interruptible((signal) => {
          const [name = "", ...args] = own.args
          return run({ board: client.board(name), output, args, options: own.opts<Options>(), signal })
        }),
      ),
    )
  }

  add(
    "post <name> [details]",
    "post a job, with a JSON object (@file, or - for standard input) as its details",
    async ({ board, output, args: [name = "", details], options: { priority, book } }) => {
      const { name: checked, ...options } = parsePost({
        name,
        ...compact({
          details: await ifGiven(details, (text) => jsonOf("details", text)),
          priority,
          book: ifGiven(book, bookOf),
        }),
      })
      const job = await board.post(checked, options)
      if (output.json) output.document(await job.find())
      else output.line(job.id)
    },
    (own) =>
      own
        .option("--priority <name>", listText(BOARD_PRIORITIES))
        .option("--book <name=uuid>", "the place in which the application stores the data of the job"),
  )
  add(
    "list",
    "list the jobs, by priority, then in the order of posting",
    async ({ board, output, options }) => {
      const found = await board.list({ ...afterOf(options), onlyUnclaimed: options.unclaimed ?? false })
      if (output.json) return output.document(found)
      table(output, found.jobs, "no jobs")
      for (const key of found.unreadable) output.note(`entry ${key} cannot be read and was skipped`)
      if (found.next !== undefined) output.note(`there are more: --cursor ${found.next}`)
    },
    (own) => page(own).option("--unclaimed", "only jobs that can be claimed"),
  )
  add("show <id>", "show a job: state, owner, details and history", async ({ board, output, args: [id = ""] }) =>
    show(output, await board.find(id)),
  )
  add(
    "claim [id]",
    "claim a job, or the first one that can be claimed",
    async ({ board, output, args: [id], options, signal }) => {
      const { owner = ownOwner(), expiry, wait } = options
      if (id !== undefined && wait !== undefined) wrongUsage("board claim: --wait is for the next job, without an id")
      const given = { expiry: expiry === undefined ? DEFAULT_EXPIRY : expiryOf(expiry) }
      const claim =
        id === undefined
          ? await inTime(board.take(owner, { ...given, signal, ...compact({ wait }) }), wait, signal)
          : await board.claim(id, owner, given)
      show(output, claim.view)
    },
    (own) =>
      owner(own)
        .option("--expiry <duration>", `how long the claim is valid, or none (default: ${DEFAULT_EXPIRY} s)`)
        .option("--wait <duration>", "how long to wait for a job"),
  )
  add(
    "extend <id> <expiry>",
    "set how long a claim is valid from now, or none",
    async ({ board, output, args: [id = "", expiry = ""], options }) => {
      const { owner = ownOwner() } = options
      const extended = await board.extendExpiry(id, expiryOf(expiry), { owner, ...heldOf(options) })
      // The command fails: a script that went on would work on a job that has another owner by now.
      if (!extended) accepted(notClaimed((await board.find(id)).id))
      if (output.json) output.document({ extended })
      else output.line("extended")
    },
    held,
  )
  const ends = {
    consume: "remove a finished job from the board",
    abandon: "give up a claim",
    trash: "move a job to the trash",
  } as const
  for (const how of ["consume", "abandon", "trash"] as const)
    add(
      `${how} <id>`,
      ends[how],
      async ({ board, output, args: [id = ""], options }) =>
        show(output, await board[how](id, options.owner ?? ownOwner(), heldOf(options))),
      held,
    )
  add(
    "trashed [id]",
    "list the jobs in the trash, or show one",
    async ({ board, output, args: [id], options }) => {
      if (id !== undefined) return show(output, await board.trashedJob(id))
      const asked = afterOf(options)
      const jobs = await board.trashed(asked)
      const next = jobs.length === asked.limit ? jobs.at(-1)?.id : undefined
      if (output.json) return output.document({ jobs, ...compact({ next }) })
      table(output, jobs, "the trash is empty")
      if (next !== undefined) output.note(`there may be more: --cursor ${next}`)
    },
    page,
  )
  add("restore <id>", "put a job from the trash back on the board", async ({ board, output, args: [id = ""] }) =>
    show(output, await (await board.restore(id)).find()),
  )
  add(
    "wait [id]",
    "wait until there is a job, or until a job is consumed or trashed",
    async ({ board, output, args: [id], options: { timeout }, signal }) => {
      if (id === undefined) {
        await inTime(board.wait(timeout, signal), timeout, signal)
        const { jobs } = await board.list({ limit: 1 })
        return output.json ? output.document({ jobs }) : table(output, jobs, "no jobs")
      }
      const complete = await board.waitFor(id, { signal, ...compact({ timeout }) })
      if (output.json) output.document({ complete })
      else output.line(complete ? "complete" : "not complete yet")
      // A script that went on would take the job for complete.
      if (!complete) throw new CommandFailed(signal.aborted ? EXIT.failed : EXIT.timeout)
    },
    (own) => own.option("--timeout <duration>", "how long to wait (default: indefinitely)"),
  )
  add("count", "count the jobs", async ({ board, output }) => {
    const count = await board.count()
    if (output.json) output.document({ count })
    else output.line(`${count}`)
  })
  add("entities", "list the processes that work on the board", async ({ board, output }) => {
    const entities = await board.entities()
    if (output.json) return output.document({ entities })
    const rows = entities.map(({ kind, name, metadata = {} }) => [kind, name, JSON.stringify(metadata)])
    output.table(["KIND", "NAME", "METADATA"], rows, "no entities")
  })
  add("watch", "print jobs as they are posted to the board and removed from it", async ({ board, output, signal }) => {
    await board.on("*", (told) => {
      if (output.json) output.record(told)
      else output.line("id" in told ? `${told.event}  ${told.id}  ${oneLine(told.name)}` : `${told.event}  ${told.key}`)
    })
    stayAlive(signal)
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }))
  })
}
