/** Names of schedules. */
import { type Refuse, refuseInput } from "../options/refuse.ts"

const NAME = /^[A-Za-z0-9_$][A-Za-z0-9_.$-]*$/
/** Most characters of a name: the id of a job is made of the name and the due time. */
const MAX_NAME = 200

export const checkScheduleName = (name: unknown, refuse: Refuse = refuseInput): string =>
  typeof name === "string" && name.length <= MAX_NAME && NAME.test(name)
    ? name
    : refuse(
        "name",
        `must be 1 to ${MAX_NAME} letters, digits, "_", ".", "$" or "-", and must not start with "." or "-"`,
      )
