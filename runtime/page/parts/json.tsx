/** Shows a value of a job: deep parts are folded, at most 64 KiB are shown, and the download contains all of it. */
import { useSignal } from "@preact/signals"
import type { JSX } from "preact"
import { useMemo } from "preact/hooks"
import { isDeep, linesOf, upTo } from "../json.ts"
import { bytes } from "../times.ts"
import { Button, Copy, Panel } from "./basic.tsx"

const FOLDED_LINES = 40
const MAX_CHARACTERS = 65_536

const textOf = (value: unknown): string => JSON.stringify(value, null, 2) ?? "undefined"

/** Downloads a text as a file. The browser never opens it as a document, since it may contain HTML. */
export const save = (name: string, text: string): void => {
  const url = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }))
  const link = document.createElement("a")
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

export const ValuePanel = ({
  title,
  value,
  name,
}: {
  readonly title: string
  readonly value: unknown
  /** Name of the downloaded file. */
  readonly name: string
}): JSX.Element => {
  const isOpen = useSignal(false)
  const text = useMemo(() => textOf(value), [value])
  const lines = useMemo(() => linesOf(value, isOpen.value), [value, isOpen.value])
  const whole = useMemo(() => upTo(lines, MAX_CHARACTERS), [lines])
  const shown = isOpen.value ? whole.lines : whole.lines.slice(0, FOLDED_LINES)
  const isFolded = !isOpen.value && (lines.length > FOLDED_LINES || isDeep(value))
  const isCut = whole.isCut && shown.length === whole.lines.length
  return (
    <Panel
      title={title}
      hint={bytes(new TextEncoder().encode(text).length)}
      tools={
        <>
          {text.length > MAX_CHARACTERS && (
            <Button class="small quiet" onClick={() => save(`${name}.json`, text)}>
              Download
            </Button>
          )}
          <Copy text={() => text} label={`Copy: ${title}`} />
        </>
      }
    >
      <div class="body">
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys. */}
        <pre class="code" tabIndex={0}>
          {shown.map((line, at) => (
            <span key={at}>
              {line.map((piece, index) => (
                <span key={index} class={piece.kind}>
                  {piece.text}
                </span>
              ))}
              {"\n"}
            </span>
          ))}
        </pre>
        {isFolded && (
          <Button class="small quiet" onClick={() => (isOpen.value = true)}>
            Unfold
          </Button>
        )}
        {isCut && <p class="small dim">Only the first 64 KiB are shown. Download it to see the rest.</p>}
      </div>
    </Panel>
  )
}
