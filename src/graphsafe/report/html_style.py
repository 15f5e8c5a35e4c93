"""The style sheet of the HTML form; it follows the reader's choice of light or dark."""

STYLE = """
:root { color-scheme: light dark; --error: #b3261e; --warning: #8a5a00; --note: #0b57d0; --good: #146c2e;
  --line: #8885; --shade: #8881; --mark: #f9ab0055; }
@media (prefers-color-scheme: dark) {
  :root { --error: #f2b8b5; --warning: #f5c26b; --note: #a8c7fa; --good: #8fd3a0; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0; }
main { max-width: 62rem; margin: 0 auto; padding: 1rem 1.25rem 3rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin-top: 2rem; }
h3 { font: 600 .9rem ui-monospace, monospace; margin: 1.5rem 0 .5rem; overflow-wrap: anywhere; }
h4 { font-size: 1rem; font-weight: 600; margin: 0; overflow-wrap: anywhere; }
p { margin: .4rem 0; overflow-wrap: anywhere; }
code, pre { font: .86rem/1.45 ui-monospace, monospace; }
pre { background: var(--shade); overflow-x: auto; padding: .5rem .75rem; margin: .5rem 0; tab-size: 4; }
pre span { display: inline-block; min-width: 3ch; margin-right: 2ch; text-align: right; opacity: .5;
  user-select: none; }
mark { background: var(--mark); color: inherit; border-radius: 2px; }
table { border-collapse: collapse; margin: .5rem 0; }
td { border-top: 1px solid var(--line); padding: .25rem 1rem .25rem 0; vertical-align: top; overflow-wrap: anywhere; }
td:first-child { white-space: nowrap; }
article { border-left: 3px solid var(--line); padding: .1rem 0 .1rem 1rem; margin: 1rem 0; }
article.error { border-color: var(--error); } article.error h4 span { color: var(--error); }
article.warning { border-color: var(--warning); } article.warning h4 span { color: var(--warning); }
article.note { border-color: var(--note); } article.note h4 span { color: var(--note); }
.about { opacity: .7; font-size: .9rem; margin: 0; }
.ready, .pass { color: var(--good); } .not-ready, .fail, .crashed { color: var(--error); }
.ready-with-breaks, .inconclusive, .timeout { color: var(--warning); } .skipped { opacity: .6; }
details { margin: .5rem 0; } summary { cursor: pointer; }
details.suppressed { margin-top: 2rem; }
@media print { details > * { display: block; } pre { white-space: pre-wrap; } }
"""
