/**
 * Escapes every text that the page shows, between tags and in attributes that are shown or read out. It is a hook of
 * Preact, so that no view can forget it. Values of input fields are not changed.
 */
import { options } from "preact"
import { seen } from "./seen.ts"

const SHOWN = ["title", "aria-label", "placeholder", "data-l"]

const seenChildren = (children: unknown): unknown =>
  typeof children === "string" ? seen(children) : Array.isArray(children) ? children.map(seenChildren) : children

/** Escapes the texts of a new element. `type`: its tag, or the component that makes it. */
export const guard = (type: unknown, props: Record<string, unknown>): void => {
  if ("children" in props) props["children"] = seenChildren(props["children"])
  if (typeof type !== "string") return
  for (const name of SHOWN) {
    const value = props[name]
    if (typeof value === "string") props[name] = seen(value)
  }
}

const before = options.vnode
options.vnode = (vnode) => {
  // A component may return a bare text, which has no properties.
  if (typeof vnode.props === "object" && vnode.props !== null) guard(vnode.type, vnode.props)
  before?.(vnode)
}
