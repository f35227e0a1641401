/** The views in the navigation, in its order. A view whose feature the board lacks is left out. */

import type { ViewName } from "../paths.ts"
import { has } from "../state.ts"
import type { IconName } from "./icon.tsx"

export interface NamedView {
  readonly name: ViewName
  readonly title: string
  readonly icon: IconName
  /** Views that belong to this one: while one of them is shown, this entry is marked. */
  readonly also: ReadonlyArray<ViewName>
  readonly shown: () => boolean
}

export const VIEWS: ReadonlyArray<NamedView> = [
  { name: "overview", title: "Overview", icon: "overview", also: [], shown: () => true },
  { name: "jobs", title: "Jobs", icon: "jobs", also: ["job"], shown: () => true },
  { name: "errors", title: "Errors", icon: "errors", also: ["error"], shown: () => has("errors") },
  { name: "queues", title: "Queues & limits", icon: "queues", also: ["queue"], shown: () => true },
  { name: "workers", title: "Workers", icon: "workers", also: ["worker"], shown: () => true },
  { name: "schedules", title: "Schedules", icon: "schedules", also: [], shown: () => has("schedules") },
  { name: "dead", title: "Dead letters", icon: "dead", also: [], shown: () => has("dead") },
]
