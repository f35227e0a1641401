/**
 * A name or an id as one word of a command that people copy, quoted where a shell would read it otherwise: ids come from the programs
 * that submit tasks. Control characters are written as escapes of bash and zsh, so that none reaches a terminal.
 */
export const shellWord = (text: string): string => {
  if (/^[\w.:@/+=,%][\w.:@/+=,%-]*$/.test(text)) return text
  if (text.search(CONTROLS) < 0) return `'${text.replaceAll("'", `'\\''`)}'`
  const escaped = text.replaceAll(/[\\']/g, "\\$&")
  return `$'${escaped.replaceAll(CONTROLS, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`)}'`
}

const CONTROLS = /[\p{Cc}\u2028\u2029]/gu
