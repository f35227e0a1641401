/** The order of the tasks of a flow, by what they require and provide, and which of them are ignored with a task. Pure. */

/** The tasks that are ignored with a task. `all`: also those that follow the flow of the task. */
export type IgnoreDepth = "atom" | "neighbors" | "flow" | "all"

/** How the tasks of a flow follow each other. */
export type FlowPattern = "graph" | "linear" | "unordered"

/** A definition that can never run as a flow. Thrown by `flow()`, thus when the module is loaded. */
export class InvalidFlow extends Error {
  readonly _tag = "InvalidFlow"
  override readonly name = "InvalidFlow"
}

/** What the order of a flow depends on: a task of it, or a flow within it. */
export interface Ordered {
  readonly kind: "task" | "flow"
  readonly requires: ReadonlyArray<string>
  readonly provides: ReadonlyArray<string>
  /** Names of tasks that it follows besides those that provide what it requires. */
  readonly after: ReadonlyArray<string>
  /** `undefined`: it is never ignored for a reason of its own. */
  readonly depth: IgnoreDepth | undefined
  /** The values that a flow may lack although what follows it runs. */
  readonly uncertain: ReadonlyArray<string>
}

type Tasks = ReadonlyMap<string, Ordered>

export interface FlowOrder {
  /** The tasks that must have ended before each task. */
  readonly before: ReadonlyMap<string, ReadonlySet<string>>
  /** The tasks that are ignored with this one, itself included. `all` also means tasks after this flow, which are not among them. */
  readonly ignoredWith: (name: string, depth: IgnoreDepth) => ReadonlySet<string>
  readonly uncertain: ReadonlyArray<string>
}

/** Throws {@link InvalidFlow}. `given`: the value that the flow itself provides. */
export const orderOf = (flow: string, tasks: Tasks, pattern: FlowPattern, given: string | undefined): FlowOrder => {
  const refuse = (message: string): never => {
    throw new InvalidFlow(`flow ${flow}: ${message}`)
  }
  if (tasks.size === 0) refuse("tasks is empty; a flow needs at least one")
  const number = pattern === "linear" ? tasks.keys().find((name) => /^\d+$/.test(name)) : undefined
  if (number !== undefined) refuse(`${number} is a number, which JavaScript lists first: give the task another name`)
  const before = edgesOf(tasks, pattern, providersOf(tasks, given, refuse), refuse)
  const circle = circleOf(before)
  if (circle.length > 0) refuse(`each of these tasks waits for the next one, in a circle: ${circle.join(", ")}`)
  const ignoredWith = (name: string, depth: IgnoreDepth) => reachOf(tasks, before, name, depth)
  return { before, ignoredWith, uncertain: uncertainOf(tasks, ignoredWith, refuse) }
}

type Refuse = (message: string) => never

const providersOf = (tasks: Tasks, given: string | undefined, refuse: Refuse): ReadonlyMap<string, string> => {
  const providers = new Map<string, string>()
  for (const [name, { provides }] of tasks)
    for (const value of new Set(provides)) {
      const other = value === given ? "the retry of the flow" : providers.get(value)
      if (other !== undefined) refuse(`${name} provides "${value}", and so does ${other}: rename one of the values`)
      providers.set(value, name)
    }
  return providers
}

const edgesOf = (
  tasks: Tasks,
  pattern: FlowPattern,
  providers: ReadonlyMap<string, string>,
  refuse: Refuse,
): ReadonlyMap<string, ReadonlySet<string>> => {
  const names = [...tasks.keys()]
  const edges = new Map<string, ReadonlySet<string>>()
  for (const [at, [name, { requires, after }]] of [...tasks].entries()) {
    const mine = new Set(pattern === "linear" ? names.slice(Math.max(at - 1, 0), at) : [])
    const follow = (other: string, why: string) => {
      if (pattern === "unordered") refuse(`${name} ${why}, but the flow is unordered: make it a graph`)
      if (pattern === "linear" && names.indexOf(other) >= at) refuse(`${name} ${why}, which is not before it: move it`)
      mine.add(other)
    }
    for (const other of after) {
      if (!tasks.has(other)) refuse(`${name} comes after ${other}, which is not one of its tasks`)
      follow(other, `comes after ${other}`)
    }
    for (const value of requires) {
      const other = providers.get(value)
      if (other !== undefined) follow(other, `requires "${value}" of ${other}`)
    }
    edges.set(name, mine)
  }
  return edges
}

/** Tasks of which each waits for the next one, and the last one for the first; none if there is no such circle. */
const circleOf = (before: ReadonlyMap<string, ReadonlySet<string>>): ReadonlyArray<string> => {
  const left = new Map(before)
  for (let size = -1; size !== left.size; ) {
    size = left.size
    for (const [name, others] of left) if (others.values().every((other) => !left.has(other))) left.delete(name)
  }
  const path: Array<string> = []
  let at: string | undefined = left.keys().next().value
  while (at !== undefined && !path.includes(at)) {
    path.push(at)
    at = left
      .get(at)
      ?.values()
      .find((other) => left.has(other))
  }
  return at === undefined ? [] : path.slice(path.indexOf(at))
}

const reachOf = (
  tasks: Tasks,
  before: ReadonlyMap<string, ReadonlySet<string>>,
  name: string,
  depth: IgnoreDepth,
): ReadonlySet<string> => {
  const reached = new Set([name])
  if (depth === "atom") return reached
  for (const each of reached) {
    for (const [next, others] of before)
      if (others.has(each) && (depth === "all" || tasks.get(next)?.kind === "task")) reached.add(next)
    if (depth === "neighbors") break
  }
  return reached
}

/** The values of the flow that may be missing after it. Refuses a task that may run without a value that it requires. */
const uncertainOf = (tasks: Tasks, ignoredWith: FlowOrder["ignoredWith"], refuse: Refuse): ReadonlyArray<string> => {
  const uncertain = new Set<string>()
  const lose = (value: string, ignored: ReadonlySet<string>, why: string) => {
    for (const [name, { requires }] of tasks)
      if (!ignored.has(name) && requires.includes(value)) refuse(`${name} requires "${value}", which is missing ${why}`)
  }
  for (const [name, { depth, uncertain: inner }] of tasks) {
    for (const value of inner) {
      lose(value, new Set(), `if a task within ${name} is ignored: give that task the depth "all"`)
      uncertain.add(value)
    }
    if (depth === undefined) continue
    const ignored = ignoredWith(name, depth)
    for (const each of ignored)
      for (const value of tasks.get(each)?.provides ?? []) {
        lose(value, ignored, `if ${name} is ignored: give ${name} a larger depth than "${depth}"`)
        if (depth !== "all") uncertain.add(value)
      }
  }
  return [...uncertain]
}
