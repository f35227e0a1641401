/** Where bunqueue keeps its jobs: in memory, or in a file. */
export const placeOf = (where: string) =>
  where === "memory" ? { embedded: true as const } : { embedded: true as const, dataPath: where }
