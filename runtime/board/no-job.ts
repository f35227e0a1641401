/** The errors of waits on a board that ended without a job. */
import { CallboardError } from "../errors.ts"

/** The error of a wait for a job that ended without one. */
export const noJob = (board: string, ms: number): CallboardError =>
  new CallboardError("not-found", `there is no job on board ${board}: waited ${ms / 1000} s`)

/** The error of a claim of the next job that ended without one. */
export const noneToClaim = (board: string, ms: number): CallboardError =>
  new CallboardError("not-found", `no job of board ${board} can be claimed: waited ${ms / 1000} s`)
