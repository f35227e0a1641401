/** A driver with the smallest capabilities that may be declared: due times of a few seconds, one band, no front. */
import type { Capabilities, Commit, Committed, Driver, Posting, Receipt } from "../../../runtime/transport/driver.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"

export const poorDriver = (driver: Driver, capabilities: Capabilities): Driver => {
  const refusal = ({ due = 0, level }: Posting): TransportError | undefined => {
    if (due > Date.now() + capabilities.delay) return new TransportError("unsupported", "it is due too late")
    return level > 9 ? new TransportError("unsupported", "there is no front") : undefined
  }
  const flat = (posting: Posting): Posting => ({ ...posting, level: 4 })
  const publishOne = async (posting: Posting): Promise<Receipt> => {
    const error = refusal(posting)
    if (error !== undefined) return { status: "failed", error }
    return (await driver.publish([flat(posting)]))[0] ?? { status: "stored" }
  }
  const commitOne = async ({ post = [], ...commit }: Commit): Promise<Committed> => {
    const { task } = commit
    const late = task?.kind === "hand-back" && task.delay > capabilities.delay
    const errors = post.flatMap((posting) => refusal(posting) ?? [])
    if (late) errors.push(new TransportError("unsupported", "the delay is too long"))
    const [error] = errors
    if (error !== undefined) return { status: "failed", error }
    const [answer] = await driver.commit([{ ...commit, post: post.map(flat) }])
    return answer ?? { status: "conflict" }
  }
  return {
    ...driver,
    name: "poor",
    capabilities,
    publish: (postings) => Promise.all(postings.map(publishOne)),
    commit: (commits) => Promise.all(commits.map(commitOne)),
  }
}
