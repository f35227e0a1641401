/** News of tasks and records, for those who listen. Records are told of once they are stored, tasks as they are published. */
import type { Interest, News } from "../../../runtime/transport/driver.ts"
import type { Link } from "../connection/link.ts"
import type { Names } from "../streams/names.ts"
import type { Subscriptions } from "./subscriptions.ts"

export interface ListeningParts {
  readonly link: Link
  readonly names: Names
  readonly subscriptions: Subscriptions
}

/** Resolves once changes are heard. Fails with `unavailable` or `closed`. */
export const listen = async (
  { link, names, subscriptions }: ListeningParts,
  interest: Interest,
  listener: (news: News) => void,
  signal: AbortSignal,
): Promise<void> => {
  if (signal.aborted) return
  if (interest.kind === "queues") {
    const hear = (queue: string) =>
      subscriptions.listen(names.tasksIn("j", queue), () => listener({ kind: "queue", queue }), signal)
    await Promise.all(interest.queues.map(hear))
  } else if (interest.kind === "job") {
    const { id } = interest
    await Promise.all([
      subscriptions.listen(
        names.event("t", id),
        ({ data }) => listener({ kind: "job", id, record: data.slice() }),
        signal,
      ),
      // A job that nothing is stored about is changed by its task.
      ...(["j", "s"] as const).map((kind) =>
        subscriptions.listen(names.tasksOf(id, kind), () => listener({ kind: "job", id }), signal),
      ),
    ])
  } else {
    const hear = ({ subject, data }: { readonly subject: string; readonly data: Uint8Array }) =>
      listener({ kind: "job", id: names.idIn(subject), record: data.slice() })
    await subscriptions.listen(names.event("t"), hear, signal)
  }
  if (signal.aborted) return
  const stop = link.onStatus((status) => {
    if (status === "connected") listener({ kind: "missed" })
  })
  signal.addEventListener("abort", stop, { once: true })
}
