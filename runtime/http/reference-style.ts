/** How the reference page looks, light and dark. */

export const REFERENCE_STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d8dde3, #3a4048); --soft: light-dark(#f5f7f9, #1d2126);
  --text: light-dark(#1c2126, #e3e7ec); --quiet: light-dark(#5b6570, #9aa5b1); --link: light-dark(#0b5cad, #7db8ff) }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; color: var(--text);
  background: light-dark(#fff, #14171a) }
h1, h2, h3 { line-height: 1.2 }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line) }
h3 { overflow-wrap: anywhere }
a { color: var(--link) }
small { color: var(--quiet); font-weight: normal }
code, pre { font: 0.9em ui-monospace, monospace }
code { overflow-wrap: anywhere }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: 0.75rem; background: var(--soft); border: 1px solid var(--line); border-radius: 6px }
nav ul, .answers { padding-left: 0; list-style: none }
nav a { text-decoration: none }
section { margin: 1.5rem 0; padding-left: 1rem; border-left: 3px solid var(--line) }
section:target { border-color: var(--link) }
.scroll { overflow-x: auto }
table { width: 100%; border-collapse: collapse; font-size: 0.93em }
th, td { padding: 0.3rem 0.75rem 0.3rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top }
.method { display: inline-block; min-width: 4.2em; font: bold 0.8em ui-monospace, monospace; color: var(--quiet) }
.get { color: light-dark(#0a6b3d, #63d29a) } .post { color: light-dark(#0b5cad, #7db8ff) }
.delete { color: light-dark(#b3261e, #ff9a92) } .patch { color: light-dark(#8a5a00, #f0c060) }
.s2 { color: light-dark(#0a6b3d, #63d29a) } .s4, .s5 { color: light-dark(#b3261e, #ff9a92) }
`
