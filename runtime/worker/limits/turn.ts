/** Whose turn it is: those with the first places among all who are known, as many as there are slots. Pure. */

export interface Turn {
  /** Of those who ask: they may run. */
  readonly admitted: ReadonlySet<string>
  /** Of those who wait: to be called. */
  readonly next: ReadonlyArray<string>
}

/** `asking` are here, `expected` were called and may come any moment, `waiting` are to be called. All by place. */
export const turnOf = (
  slots: number,
  { asking, expected, waiting }: Readonly<Record<"asking" | "expected" | "waiting", ReadonlyArray<string>>>,
): Turn => {
  const admitted = new Set<string>()
  const next: Array<string> = []
  // Whoever is here is here, whatever was known of him.
  const here = new Set(asking)
  const kinds = new Map<string, "expected" | "waiting">()
  for (const place of waiting) if (!here.has(place)) kinds.set(place, "waiting")
  for (const place of expected) if (!here.has(place)) kinds.set(place, "expected")
  for (const place of [...here, ...kinds.keys()].sort().slice(0, Math.max(0, slots))) {
    const kind = kinds.get(place)
    if (kind === undefined) admitted.add(place)
    else if (kind === "waiting") next.push(place)
  }
  return { admitted, next }
}
