/** A view whose code is loaded when it is opened, so that a first visit does not load what it does not show. */
import type { ComponentType, JSX } from "preact"
import { useEffect, useState } from "preact/hooks"
import { Button, Empty } from "./basic.tsx"
import { View } from "./view.tsx"

/** The properties of every view. */
export interface Shown {
  /** The last part of the address, where it names a job, queue or worker. */
  readonly id: string
}

export const later = (title: string, load: () => Promise<ComponentType<Shown>>): ComponentType<Shown> => {
  let loaded: ComponentType<Shown> | undefined
  return ({ id }): JSX.Element => {
    const [state, setState] = useState<"loading" | "loaded" | "failed">(loaded === undefined ? "loading" : "loaded")
    useEffect(() => {
      if (loaded !== undefined) return
      load().then(
        (view) => {
          loaded = view
          setState("loaded")
        },
        () => setState("failed"),
      )
    }, [])
    if (loaded !== undefined) {
      const Loaded = loaded
      return <Loaded id={id} />
    }
    return (
      <View title={title}>
        {state === "failed" && (
          // A browser does not ask again for a module that did not come; after an update it has another name.
          <Empty title="This page could not be loaded">
            <Button onClick={() => location.reload()}>Reload</Button>
          </Empty>
        )}
      </View>
    )
  }
}
