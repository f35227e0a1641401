import type { ErasedMethod } from "./actor.ts"

/** Whether tasks of a method are taken off their queue before their handlers start. */
export const acksEarly = ({ acks }: ErasedMethod): boolean => acks?.when === "early"
