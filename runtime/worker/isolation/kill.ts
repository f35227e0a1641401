/**
 * Kills a process of isolated handlers together with everything that its handlers started. Such a process leads a group
 * of its own, unless the system has no groups.
 */

const send = (target: number): void => {
  try {
    process.kill(target, "SIGKILL")
  } catch {
    // It has ended already.
  }
}

const hasGroups = process.platform !== "win32"

/** Kills a process that has not been seen to end, and its group. */
export const killGroup = (pid: number): void => {
  if (hasGroups) send(-pid)
  send(pid)
}

/** Kills what is left of the group of a process that has ended. */
export const killRest = (pid: number): void => {
  if (hasGroups) send(-pid)
}
