/** Names of job boards. */

const BOARD_NAME = /^[A-Za-z0-9_-]{1,64}$/

export const BOARD_NAME_RULE = `a name must be 1 to 64 letters, digits, "_" or "-"`

export const isBoardName = (name: unknown): name is string => typeof name === "string" && BOARD_NAME.test(name)
