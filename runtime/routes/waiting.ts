/** How long a request waits for something to happen. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { parseDuration } from "../protocol/time.ts"
import { MAX_WAIT_MS } from "./bounds.ts"

export const Wait = Schema.String.annotate({
  description: `How long to wait for the end: seconds, or text such as \`30s\`; at most ${MAX_WAIT_MS / 1000} s`,
  examples: ["30s"],
}).check(
  Schema.makeFilter((given: string) => {
    const parsed = parseDuration(given)
    if (Result.isFailure(parsed)) return parsed.failure.message
    return parsed.success <= MAX_WAIT_MS || `must be at most ${MAX_WAIT_MS / 1000} s; ask again to continue`
  }),
)
