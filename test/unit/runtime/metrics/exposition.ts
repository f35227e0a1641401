/** Reads the Prometheus text format 0.0.4, strictly: what a scraper might take amiss is an error here. */

export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

interface Family {
  readonly type: string
  readonly samples: Array<Sample>
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*/
const LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|$)/
const VALUE = /^ (NaN|[+-]Inf|[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/

const UNESCAPED: Readonly<Record<string, string>> = { "\\\\": "\\", '\\"': '"', "\\n": "\n" }

const fail = (line: string, why: string): never => {
  throw new Error(`${why}: ${line}`)
}

const labelsOf = (line: string, text: string): Readonly<Record<string, string>> => {
  const labels: Record<string, string> = {}
  let rest = text
  while (rest !== "") {
    const [whole, name, value] = LABEL.exec(rest) ?? fail(line, "labels that cannot be read")
    if (name === undefined || value === undefined || name in labels) return fail(line, "a label twice")
    labels[name] = value.replaceAll(/\\[\\"n]/g, (escaped) => UNESCAPED[escaped] ?? "")
    rest = rest.slice(whole.length)
  }
  return labels
}

const sampleOf = (line: string): Sample => {
  const name = NAME.exec(line)?.[0] ?? fail(line, "no name")
  const behind = line.slice(name.length)
  const end = behind.startsWith("{") ? behind.lastIndexOf("}") + 1 : 0
  const [, value] = VALUE.exec(behind.slice(end)) ?? fail(line, "no value")
  const number = value === "+Inf" ? Number.POSITIVE_INFINITY : Number(value)
  return { name, labels: labelsOf(line, behind.slice(1, Math.max(1, end - 1))), value: number }
}

const keyOf = ({ name, labels }: Sample): string => JSON.stringify([name, Object.entries(labels).sort()])

/** Buckets must not fall, and the last one is `+Inf` and equals the count. */
const checkHistogram = (name: string, samples: ReadonlyArray<Sample>): void => {
  const groups = new Map<string, Array<Sample>>()
  for (const sample of samples) {
    const { le: _le, ...labels } = sample.labels
    const key = JSON.stringify(Object.entries(labels).sort())
    groups.set(key, [...(groups.get(key) ?? []), sample])
  }
  for (const [key, group] of groups) {
    const buckets = group.filter((sample) => sample.name === `${name}_bucket`)
    const bounds = buckets.map(({ labels }) =>
      labels["le"] === "+Inf" ? Number.POSITIVE_INFINITY : Number(labels["le"]),
    )
    const count = group.find((sample) => sample.name === `${name}_count`)?.value
    if (!group.some((sample) => sample.name === `${name}_sum`)) fail(key, `${name} has no sum`)
    for (const [at, bound] of bounds.entries()) {
      const before = at === 0 ? -1 : bounds[at - 1]
      if (!(bound > (before ?? -1))) fail(key, `${name} has bounds out of order`)
      if ((buckets[at]?.value ?? 0) < (buckets[at - 1]?.value ?? 0)) fail(key, `${name} has buckets that fall`)
    }
    if (bounds.at(-1) !== Number.POSITIVE_INFINITY || buckets.at(-1)?.value !== count) {
      fail(key, `${name} has no +Inf bucket that equals its count`)
    }
  }
}

/** Metrics as they were exposed. */
export class Exposition {
  readonly #families = new Map<string, Family>()

  /** Throws on whatever is not of the format. */
  constructor(text: string) {
    if (!text.endsWith("\n")) fail(text.slice(-80), "the last line does not end")
    let helped: string | undefined
    let current: [name: string, family: Family] | undefined
    const seen = new Set<string>()
    for (const line of text.slice(0, -1).split("\n")) {
      if (line === "") continue
      const [, help] = /^# HELP (\S+) (?:[^\\]|\\\\|\\n)+$/.exec(line) ?? []
      const [, typed, type] = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line) ?? []
      if (help !== undefined) helped = help
      else if (typed !== undefined && type !== undefined) {
        if (helped !== typed) fail(line, "no HELP right before")
        if (this.#families.has(typed)) fail(line, "a metric twice")
        current = [typed, { type, samples: [] }]
        this.#families.set(...current)
      } else {
        if (line.startsWith("#") || current === undefined) throw new Error(`no line of this format: ${line}`)
        const sample = sampleOf(line)
        const [name, family] = current
        const names = family.type === "histogram" ? ["_bucket", "_sum", "_count"].map((end) => name + end) : [name]
        if (!names.includes(sample.name)) fail(line, `not of the metric ${name} above it`)
        if (family.type !== "gauge" && !(sample.value >= 0)) fail(line, "a counter below 0")
        if (seen.has(keyOf(sample))) fail(line, "a sample twice")
        seen.add(keyOf(sample))
        family.samples.push(sample)
      }
    }
    for (const [name, { type, samples }] of this.#families) {
      if (type === "counter" && !name.endsWith("_total")) fail(name, "a counter without _total")
      if (type === "histogram") checkHistogram(name, samples)
    }
  }

  get all(): ReadonlyArray<Sample> {
    return [...this.#families.values()].flatMap(({ samples }) => samples)
  }

  /** The samples of a name, those that are not 0, by the values of their labels: `{"text.count succeeded": 2}`. */
  of(name: string): Readonly<Record<string, number>> {
    const found = this.all.filter((sample) => sample.name === name && sample.value !== 0)
    return Object.fromEntries(found.map(({ labels, value }) => [Object.values(labels).join(" "), value]))
  }

  /** The one sample of a name; `undefined` where there is none. */
  value(name: string, labels: Readonly<Record<string, string>> = {}): number | undefined {
    return this.all.find(
      (sample) => sample.name === name && Object.entries(labels).every(([key, text]) => sample.labels[key] === text),
    )?.value
  }
}
