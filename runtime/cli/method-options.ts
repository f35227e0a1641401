/** The options of methods in words, for `callboard actors` and `callboard doctor`. */
import type { AppliedOptions } from "../cluster/directory.ts"
import { spoken } from "../options/duration.ts"
import { INHERITED_NAMES, type InheritedOption } from "../options/inherited.ts"

type Words = { readonly [Name in InheritedOption]: (value: AppliedOptions[Name]["value"]) => string }

const secondsText = (seconds: number): string => spoken(Math.round(seconds * 1_000))

const kept = (seconds: number): string => {
  if (seconds < 0) return "indefinitely"
  return seconds === 0 ? "not at all" : secondsText(seconds)
}

type Policy = AppliedOptions["retry"]["value"]

const waits = ({ backoff, interval }: Policy): ReadonlyArray<string> => {
  if (interval !== undefined) return [`after ${interval.map(secondsText).join(", ")}`]
  if (backoff === undefined) return []
  const { base, factor, max, jitter } = backoff
  return [`${secondsText(base)} × ${factor} up to ${secondsText(max)}`, ...(jitter ? [] : ["no jitter"])]
}

const WORDS: Words = {
  timeLimit: ({ hard, soft }) => {
    const limit = hard === null ? "none" : secondsText(hard)
    return soft === undefined ? limit : `${limit}, soft ${secondsText(soft)}`
  },
  retry: (policy) => {
    const { max, front, on, except } = policy
    return [
      max === 0 ? "none" : `${max}`,
      ...waits(policy),
      ...(front ? ["before other tasks"] : []),
      ...(on === undefined ? [] : [`only ${on.join(", ")}`]),
      ...(except === undefined ? [] : [`not ${except.join(", ")}`]),
    ].join(", ")
  },
  resultTtl: kept,
  failureTtl: kept,
  onLost: (value) => value,
}

const wordsOf = <Name extends InheritedOption>(options: AppliedOptions, name: Name): string =>
  WORDS[name](options[name].value)

/** An option that holds, in words. */
export interface OptionText {
  readonly name: InheritedOption
  readonly text: string
  readonly from: string
}

export const optionTexts = (options: AppliedOptions): ReadonlyArray<OptionText> =>
  INHERITED_NAMES.map((name) => ({ name, text: wordsOf(options, name), from: options[name].from }))
