import type { JSX } from "preact"
import { nextTheme, theme } from "../state.ts"
import { Button } from "./basic.tsx"

const WORDS = { system: "same as the system", light: "light", dark: "dark" } as const

/** The button that changes the colours of the page. */
export const ThemeButton = ({ class: more = "" }: { readonly class?: string }): JSX.Element => (
  <Button class={`sq ${more}`} icon="theme" label={`Colours: ${WORDS[theme.value]}`} onClick={nextTheme} />
)
