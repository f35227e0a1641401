/** A field that a value does not have is refused in the same words by everything that parses one, at any depth. */
import * as Result from "effect/Result"
import { expect, test } from "vitest"
import { parseClaim, parseEntity, parseExtend, parseOwner, parsePost } from "../../../../runtime/board/requests.ts"
import { parseCommand } from "../../../../runtime/cluster/remote-command.ts"
import { parseRevoke } from "../../../../runtime/cluster/revocation.ts"
import { parseSubmission } from "../../../../runtime/jobs/submission/submission.ts"
import { changedFields, parseScheduleFields } from "../../../../runtime/schedules/fields.ts"

const task = "a"
const answerOf = <A, E>(parsed: Result.Result<A, E>): A => {
  if (Result.isFailure(parsed)) throw parsed.failure
  return parsed.success
}
const submission = (given: object) => () => answerOf(parseSubmission({ task, ...given }))
const schedule = (given: object) => () => parseScheduleFields({ task, every: 60, ...given })
const command = (name: string, given: object) => () => answerOf(parseCommand(name, given))

test.each<readonly [parse: () => unknown, field: string, owner: string, instead: string]>([
  [submission({ dealy: 5 }), "dealy", "a task", " (did you mean delay?)"],
  [submission({ zebra: 5 }), "zebra", "a task", ""],
  [submission({ timeLimit: { sfot: 1 } }), "timeLimit.sfot", "a task", " (did you mean timeLimit.soft?)"],
  [submission({ retry: { backof: {} } }), "retry.backof", "a task", " (did you mean retry.backoff?)"],
  [
    submission({ retry: { backoff: { bse: 1 } } }),
    "retry.backoff.bse",
    "a task",
    " (did you mean retry.backoff.base?)",
  ],
  [submission({ repeat: { tmes: 1 } }), "repeat.tmes", "a task", " (did you mean repeat.times?)"],
  [
    submission({ after: { ids: "b", allowFailures: true } }),
    "after.allowFailures",
    "a task",
    " (did you mean after.allowFailure?)",
  ],
  [submission({ chord: { tasks: [{ task }], grop: "g" } }), "chord.grop", "a task", " (did you mean chord.group?)"],
  [submission({ chain: [{ task, dealy: 5 }] }), "chain[0].dealy", "a task", " (did you mean chain[0].delay?)"],
  [
    submission({ chain: [{ task, errbacks: [{ task }, { task, retry: { max: 1, zebra: 1 } }] }] }),
    "chain[0].errbacks[1].retry.zebra",
    "a task",
    "",
  ],
  [submission({ book: { name: "b", uid: "u" } }), "book.uid", "a task", " (did you mean book.uuid?)"],
  [schedule({ overlp: "skip" }), "overlp", "a schedule", " (did you mean overlap?)"],
  [schedule({ retry: { mx: 1 } }), "retry.mx", "a schedule", " (did you mean retry.max?)"],
  [() => changedFields({ task, every: 60 }, { evry: null }), "evry", "a schedule", " (did you mean every?)"],
  [() => parsePost({ name: "n", detials: {} }), "detials", "a board job", " (did you mean details?)"],
  [() => parsePost({ name: "n", zzzzz: 1 }), "zzzzz", "a board job", "; it has name, details, book, priority"],
  [() => parseEntity({ kind: "k", name: "n", meta: {} }), "meta", "an entity", " (did you mean metadata?)"],
  [() => parseClaim({ owner: "o", expriy: 1 }), "expriy", "a claim", " (did you mean expiry?)"],
  [() => parseOwner({ owner: "o", clam: 1 }), "clam", "an owner", " (did you mean claim?)"],
  [() => parseExtend({ expiry: 1, ownr: "o" }), "ownr", "an extension", " (did you mean owner?)"],
  [() => parseRevoke({ header: "h", values: ["v"], tll: 60 }), "tll", "a revocation", " (did you mean ttl?)"],
  [command("pool-grow", { cuont: 1 }), "cuont", "pool-grow", " (did you mean count?)"],
  [command("autoscale", { x: 1 }), "x", "autoscale", "; it has min, max"],
  [command("ping", { x: 1 }), "x", "ping", "; it has none"],
])("%s: %s", (parse, field, owner, instead) => {
  expect(parse).toThrow(
    expect.objectContaining({
      code: "unknown-field",
      message: `${field} is not an option of ${owner}${instead}`,
      details: { field },
    }),
  )
})

test.each<readonly [parse: () => unknown, field: string, rule: string]>([
  [submission({ callbacks: [5] }), "callbacks[0]", "an object"],
  [submission({ retry: { max: 10_001 } }), "retry.max", "1 to 10000"],
  [submission({ retry: { front: "yes" } }), "retry.front", "true or false"],
  [submission({ priority: 10 }), "priority", "0 to 9"],
  [submission({ priority: "4" }), "priority", "0 to 9"],
  [submission({ queue: "" }), "queue", "1 to 255 characters"],
  [submission({ delay: true }), "delay", "a duration"],
  [schedule({ most: 1_001 }), "most", "1 to 1000"],
  [() => parseClaim({}), "owner", "is missing"],
  [command("pool-grow", { count: 0 }), "count", "1 to 10000"],
  [command("pool-grow", {}), "count", "is missing"],
])("%s: %s, %s", (parse, field, rule) => {
  expect(parse).toThrow(
    expect.objectContaining({
      code: "invalid-input",
      message: expect.stringContaining(rule),
      details: expect.objectContaining({ field }),
    }),
  )
})
