/** Which servers this transport works with, and what to do about the others. Pure. */
import { TransportError } from "../../../runtime/transport/mod.ts"

type Version = readonly [major: number, minor: number, patch: number]

const parse = (text: string): Version | undefined => {
  const [, major, minor, patch] = /^v?(\d+)\.(\d+)\.(\d+)/.exec(text) ?? []
  return major === undefined ? undefined : [Number(major), Number(minor), Number(patch)]
}

/**
 * 2.12.15, 2.14.5 and 2.15.0 are the first of their lines without known ways to lose what was acknowledged. 2.13 was
 * never a line of releases with fixes of its own.
 */
const isSound = ([major, minor, patch]: Version): boolean => {
  if (major !== 2) return major > 2
  if (minor === 12) return patch >= 15
  if (minor === 14) return patch >= 5
  return minor >= 15
}

/** Below 2.12 there are no schedules. */
const isAble = ([major, minor]: Version): boolean => major > 2 || (major === 2 && minor >= 12)

/** Fails with `unsupported` when the server is too old, saying what to do. */
export const checkVersion = (text: string, allowOld: boolean): void => {
  const version = parse(text)
  if (version === undefined) throw new TransportError("unsupported", `the server does not say its version ("${text}")`)
  if (isSound(version) || (allowOld && isAble(version))) return
  const wanted = "nats-server 2.15 or later, 2.14.5 or later, or 2.12.15 or later"
  const way = isAble(version)
    ? `Upgrade it, or connect with ?allowOldServer to accept faults that can lose tasks.`
    : `Upgrade it: before 2.12 it cannot keep due times.`
  throw new TransportError("unsupported", `this nats-server is ${text}; needed is ${wanted}. ${way}`)
}
