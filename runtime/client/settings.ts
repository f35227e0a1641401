/** The settings of a client: their type, their check, and the values that hold. */
import * as Schema from "effect/Schema"
import { fieldsInCode, valuesOf } from "../config/setting.ts"
import { CONNECT, type OptionsFor } from "../config/table.ts"
import { AnyFunction } from "../options/check.ts"
import { type DurationInput, milliseconds } from "../options/duration.ts"
import { compact } from "../protocol/compact.ts"

/** The settings of `connect`. Parameters of the URL set `namespace` (`?ns=`) and `lease` too, and are overridden by these. */
export interface ClientSettings extends OptionsFor<"connect"> {
  /** Wait before the n-th try to connect again, with n from 1. Defaults to the transport's own waits. */
  readonly reconnectDelay?: ((tries: number) => DurationInput) | undefined
}

/** Options that are no settings of the configuration. */
const OWN = { reconnectDelay: Schema.optionalKey(AnyFunction) } satisfies Readonly<
  Record<Exclude<keyof ClientSettings, keyof typeof CONNECT>, Schema.Top>
>

export const CLIENT_FIELDS = { ...fieldsInCode(CONNECT), ...OWN }

/** The values that hold by settings that were checked, with durations in milliseconds. */
export const clientValues = (settings: ClientSettings) => {
  const { reconnectDelay: wait } = settings
  const reconnectDelay = wait && ((tries: number) => milliseconds("reconnectDelay", wait(tries)))
  return { ...valuesOf(CONNECT, settings), ...compact({ reconnectDelay }) }
}
