/** A traceback: the first line of the application is emphasised, lines of libraries are dimmed. */
import type { JSX } from "preact"
import { traceOf } from "../trace.ts"

export const Traceback = ({ text }: { readonly text: string }): JSX.Element => {
  const lines = traceOf(text)
  const first = lines.findIndex(({ kind }) => kind === "own")
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: an element that scrolls must be reachable by keyboard.
    <pre class="code" tabIndex={0}>
      {lines.map((line, at) => (
        <span
          key={at}
          class={`${line.kind === "other" ? "q" : line.kind === "own" ? "own" : ""} ${at === first ? "hl" : ""}`}
        >
          {line.text}
          {at === first ? "" : "\n"}
        </span>
      ))}
    </pre>
  )
}
