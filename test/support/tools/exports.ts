/** Reads the names that a module exports from its source alone, which takes no type-check. */

import { posix } from "node:path"

export interface Exports {
  readonly values: readonly string[]
  readonly types: readonly string[]
}

const list = /^export\s+(type\s+)?\{([^}]*)\}/gm
const all = /^export\s+(type\s+)?\*\s+(?:as\s+(\w+)\s+)?from\s*"([^"]+)"/gm
const declaration =
  /^export\s+(?:declare\s+)?(?:(interface|type)|(?:async\s+)?function\s*\*?|(?:abstract\s+)?class|const|let|var|enum|namespace)\s+([\w$]+)/gm

/**
 * The exported names of the module at that path. `verbatimModuleSyntax` makes every export of a type say `type`, so the
 * text tells a value from a type.
 */
export function exportsOf(path: string, read: (path: string) => string): Exports {
  const values = new Set<string>()
  const types = new Set<string>()
  const source = read(path).replace(/\/\*[\s\S]*?\*\//g, "")
  for (const [, onlyTypes, names = ""] of source.matchAll(list)) {
    for (const name of names.split(",").map((each) => each.trim())) {
      if (name === "") continue
      const exported = name.replace(/^type\s+/, "").replace(/^.*\sas\s+/, "")
      ;(onlyTypes !== undefined || /^type\s/.test(name) ? types : values).add(exported)
    }
  }
  for (const [, onlyTypes, name, specifier = ""] of source.matchAll(all)) {
    if (name !== undefined) (onlyTypes === undefined ? values : types).add(name)
    else {
      const from = exportsOf(posix.join(posix.dirname(path), specifier), read)
      for (const each of from.values) if (each !== "default") (onlyTypes === undefined ? values : types).add(each)
      for (const each of from.types) types.add(each)
    }
  }
  for (const [, isType, name = ""] of source.matchAll(declaration)) (isType === undefined ? values : types).add(name)
  if (/^export\s+default\b/m.test(source)) values.add("default")
  return { values: [...values].toSorted(), types: [...types].toSorted() }
}
