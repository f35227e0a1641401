/**
 * What bundlers for browsers get in place of `callboard` and `callboard/client`, which need files, threads or sockets. It has none
 * of their exports, so that the build fails and names this file.
 */
throw new Error("callboard and callboard/client do not run in a browser: import callboard/http")

export {}
