/** Whether text may carry colours: by option, else by the conventions of terminals. */

export const COLOUR_CHOICES = ["auto", "always", "never"] as const
export type ColourChoice = (typeof COLOUR_CHOICES)[number]

const isSet = (value: string | undefined): value is string => value !== undefined && value !== ""

/**
 * `auto`: on a terminal and without NO_COLOR (https://no-color.org); FORCE_COLOR decides for a stream that somebody else
 * shows, and 0 or false there means none.
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
