/** The form that replaces a view while the board requires a token. */
import { useSignal } from "@preact/signals"
import type { JSX } from "preact"
import { access, setToken } from "../state.ts"
import { Button, Check, Note } from "./basic.tsx"

export const TokenForm = (): JSX.Element => {
  const text = useSignal("")
  const remembered = useSignal(false)
  const isWrong = access.value === "wrong"
  const open = (): void => {
    const given = text.value.trim()
    if (given !== "") setToken(given, remembered.value)
  }
  return (
    <section class="frame ask" aria-labelledby="ask">
      <h1 id="ask">{isWrong ? "Unknown token" : "Token required"}</h1>
      <form
        class="in"
        onSubmit={(event) => {
          event.preventDefault()
          open()
        }}
      >
        {isWrong ? (
          <Note kind="bad" icon="lock">
            This service does not know this token. It may have been replaced: ask the people who run the service.
          </Note>
        ) : (
          <p>This dashboard requires a token. The token stays in this tab and is sent only to this address.</p>
        )}
        <label class="small mid" for="token">
          Token
        </label>
        <input
          class="fld mono"
          id="token"
          type="password"
          autocomplete="current-password"
          aria-invalid={isWrong}
          value={text.value}
          onInput={(event) => {
            text.value = event.currentTarget.value
          }}
        />
        <Check
          label="Remember on this device"
          checked={remembered.value}
          onChange={(checked) => {
            remembered.value = checked
          }}
        />
        <div class="row">
          <Button class="main" onClick={open}>
            Open the dashboard
          </Button>
        </div>
      </form>
    </section>
  )
}
