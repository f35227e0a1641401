/** Starts the page in the shell that the server sent. */
import "./guard.ts"
import { render } from "preact"
import { App } from "./app.tsx"
import { guardBulk } from "./bulk.ts"
import { startKeys } from "./keys.ts"
import { startPulse } from "./live.ts"
import { startRouter } from "./router.ts"
import { startState } from "./state.ts"

const root = document.getElementById("root")
if (root !== null) {
  root.replaceChildren()
  startState()
  startRouter()
  startKeys()
  guardBulk()
  // The pulse runs for as long as the page is open. Its first requests are sent before anything is drawn.
  void startPulse()
  render(<App />, root)
}
