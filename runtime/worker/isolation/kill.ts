/**
 * Kills a process of isolated handlers together with everything that its handlers started. The process leads a process
 * group of its own, except on Windows.
 */

const send = (target: number): void => {
  try {
    process.kill(target, "SIGKILL")
  } catch {
    // The process has ended already.
  }
}

const hasGroups = process.platform !== "win32"

/** Kills a process that has not ended as far as is known, and its group. */
export const killGroup = (pid: number): void => {
  if (hasGroups) send(-pid)
  send(pid)
}

/** Kills the rest of the group of a process that has ended. */
export const killRest = (pid: number): void => {
  if (hasGroups) send(-pid)
}
