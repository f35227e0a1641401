/** Whether output may have colours: by the option, else by the conventions of terminals. */

export const COLOUR_CHOICES = ["auto", "always", "never"] as const
export type ColourChoice = (typeof COLOUR_CHOICES)[number]

const isSet = (value: string | undefined): value is string => value !== undefined && value !== ""

/**
 * `auto`: colours on a terminal, unless NO_COLOR is set (https://no-color.org). FORCE_COLOR turns them on for a stream
 * that is no terminal (a CI log); its values `0` and `false` turn them off.
 */
export const takesColour = (
  choice: ColourChoice,
  stream: { readonly isTTY?: boolean },
  env: NodeJS.ProcessEnv = process.env,
): boolean => {
  if (choice !== "auto") return choice === "always"
  const { NO_COLOR, FORCE_COLOR } = env
  if (isSet(NO_COLOR)) return false
  return isSet(FORCE_COLOR) ? FORCE_COLOR !== "0" && FORCE_COLOR !== "false" : stream.isTTY === true
}
