/** A board job as it is shown, in JSON: over HTTP, on the command line and in code. */
import * as Schema from "effect/Schema"
import { next } from "../options/fields.ts"
import {
  BOARD_PRIORITIES,
  BOARD_STATES,
  type BoardRecord,
  boardStateOf,
  earlierClaims,
  liveClaim,
  type StoredClaim,
  storyOf,
} from "../protocol/board.ts"
import { formatTime } from "../protocol/time.ts"
import { EntityRequest } from "./requests.ts"

const Text = Schema.String
const Time = Text.annotate({ description: "By the clock of the store" })

const EarlierClaimView = Schema.Struct({
  owner: Text,
  at: Time,
  ended: Schema.Literals(["lapsed", "abandoned", "trashed"]),
  endedAt: Time,
}).annotate({ identifier: "EarlierClaim" })

export const BoardJobView = Schema.Struct({
  id: Text,
  name: Text,
  priority: Schema.Literals(BOARD_PRIORITIES),
  state: Schema.Literals(BOARD_STATES),
  owner: Schema.NullOr(Text).annotate({ description: "Owner of the current claim" }),
  details: Schema.Record(Text, Schema.Unknown),
  book: Schema.NullOr(Schema.Struct({ name: Text, uuid: Text })),
  sequence: Schema.Finite.annotate({ description: "Increases with each posting" }),
  createdAt: Time,
  modifiedAt: Time,
  claim: Schema.optionalKey(
    Schema.Finite.annotate({ description: "Number of the current claim; increases with each claim of the job" }),
  ),
  expiresIn: Schema.Union([Schema.Finite, Schema.Literals(["NOT_CLAIMED", "DOES_NOT_EXPIRE"])]).annotate({
    description: "Seconds until the claim expires",
  }),
  lastOwner: Schema.NullOr(Text).annotate({ description: "Owner of the last claim that has ended" }),
  earlier: Schema.Array(EarlierClaimView).annotate({ description: "Ended claims, oldest first" }),
  story: Schema.Array(
    Schema.Struct({ at: Time, step: Text, owner: Schema.optionalKey(Text) }).annotate({ identifier: "BoardStep" }),
  ).annotate({ description: "History of the job: the posting, and the newest 19 events" }),
}).annotate({ identifier: "BoardJob" })
export type BoardJobView = typeof BoardJobView.Type

const Unreadable = Schema.Array(Schema.String).annotate({
  description: "Entries that cannot be read, and were skipped",
})
export const BoardJobList = Schema.Struct({ jobs: Schema.Array(BoardJobView), next, unreadable: Unreadable }).annotate({
  identifier: "BoardJobList",
})
export const BoardTrash = Schema.Struct({ jobs: Schema.Array(BoardJobView), next }).annotate({
  identifier: "BoardTrash",
})
export const BoardCount = Schema.Struct({ count: Schema.Int }).annotate({ identifier: "BoardCount" })
export const BoardComplete = Schema.Struct({ complete: Schema.Boolean }).annotate({ identifier: "BoardComplete" })
export const BoardExtended = Schema.Struct({
  extended: Schema.Boolean.annotate({ description: "False if no claim is valid" }),
}).annotate({ identifier: "BoardExtended" })
export const BoardEntities = Schema.Struct({ entities: Schema.Array(EntityRequest) }).annotate({
  identifier: "BoardEntities",
})

export const expiresIn = (claim: StoredClaim | undefined, now: number): BoardJobView["expiresIn"] => {
  if (claim === undefined) return "NOT_CLAIMED"
  return claim.until === null ? "DOES_NOT_EXPIRE" : (claim.until - now) / 1000
}

/** `state`: `COMPLETE` for a job that was consumed or trashed, whose record is then the last known one. */
export const viewOf = (
  record: BoardRecord & { readonly sequence: number },
  now: number,
  state = boardStateOf(record, now),
): BoardJobView => {
  const { id, name, priority, details, book = null, sequence, createdAt, modifiedAt } = record
  const claim = liveClaim(record, now)
  const story = storyOf(record, now)
  const earlier = earlierClaims(story)
  return {
    id,
    name,
    priority,
    state,
    owner: claim?.owner ?? null,
    details,
    book,
    sequence,
    createdAt: formatTime(createdAt),
    modifiedAt: formatTime(modifiedAt),
    ...(claim === undefined ? {} : { claim: claim.number }),
    expiresIn: expiresIn(claim, now),
    lastOwner: earlier.at(-1)?.owner ?? null,
    earlier: earlier.map(({ owner, at, ended, endedAt }) => ({
      owner,
      at: formatTime(at),
      ended,
      endedAt: formatTime(endedAt),
    })),
    story: story.map(({ at, step, owner }) =>
      owner === undefined ? { at: formatTime(at), step } : { at: formatTime(at), step, owner },
    ),
  }
}
