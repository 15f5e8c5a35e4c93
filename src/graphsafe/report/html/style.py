"""The style sheet of the HTML form; it follows the reader's choice of light or dark."""

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1f1f1f; --faint: #5f6368; --line: #8885; --shade: #8881;
  --mark: #f9ab0055; --error: #b3261e; --warning: #8a5a00; --note: #0b57d0; --good: #146c2e; --work: #4a7fd6;
  --graph: #2e8b57; --wait: #c5221f; --copy: #a15ad1; --memory: #b06f00; --host: #8d9196; --idle: #f2a33c; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #17181a; --ink: #e4e6e8; --faint: #a4a9b0; --error: #f2b8b5; --warning: #f5c26b; --note: #a8c7fa;
    --good: #8fd3a0; --work: #7fa8ee; --graph: #63c08b; --wait: #f28b82; --copy: #c99bea; --memory: #e0a84f;
    --host: #8b9098; --idle: #d98f2e; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0; background: var(--ground); color: var(--ink); }
main { max-width: 62rem; margin: 0 auto; padding: 1rem 1.25rem 3rem; }
h1 { font-size: 1.4rem; margin: .5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.25rem 0 .5rem; overflow-wrap: anywhere; }
h4 { font-size: 1rem; font-weight: 600; margin: 0; overflow-wrap: anywhere; }
p, li { margin: .4rem 0; overflow-wrap: anywhere; }
ol, ul { padding-left: 1.5rem; }
code, pre { font: .86rem/1.45 ui-monospace, monospace; }
pre { background: var(--shade); overflow-x: auto; padding: .5rem .75rem; margin: .5rem 0; tab-size: 4; }
pre span { display: inline-block; min-width: 3ch; margin-right: 2ch; text-align: right; opacity: .5;
  user-select: none; }
mark { background: var(--mark); color: inherit; border-radius: 2px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; }
td { border-top: 1px solid var(--line); padding: .25rem 1rem .25rem 0; vertical-align: top; overflow-wrap: break-word;
  min-width: 3rem; max-width: 40rem; }
td:last-child { padding-right: 0; min-width: 9rem; overflow-wrap: anywhere; }
.badge { white-space: nowrap; }
.filters { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: .5rem 0; }
.filters label { color: var(--faint); font-size: .9rem; max-width: 100%; }
select { font: inherit; max-width: 100%; padding: .15rem .3rem; }
@supports not selector(:has(a)) { .filters { display: none; } }
article { border-left: 3px solid var(--line); padding: .1rem 0 .1rem 1rem; margin: 1rem 0;
  content-visibility: auto; contain-intrinsic-size: auto 12rem; }
article.error { border-color: var(--error); } article.error h4 span, td .error { color: var(--error); }
article.warning { border-color: var(--warning); } article.warning h4 span, td .warning { color: var(--warning); }
article.note { border-color: var(--note); } article.note h4 span, td .note { color: var(--note); }
.found { display: flex; flex-direction: column; counter-reset: shown; }
.found > * { flex: none; min-width: 0; } .found .filters { order: -2; }
.found > section article { counter-increment: shown; }
.shown { order: -1; color: var(--faint); font-size: .9rem; } .shown::before { content: counter(shown) " of "; }
.about { color: var(--faint); font-size: .9rem; margin: 0; }
.ready, .pass { color: var(--good); } .not-ready, .fail, .crashed { color: var(--error); }
.ready-with-breaks, .inconclusive, .timeout { color: var(--warning); } .skipped { color: var(--faint); }
details { margin: .5rem 0; } summary { cursor: pointer; overflow-wrap: anywhere; }
article details { font-size: .95rem; margin: .25rem 0; } article summary { color: var(--faint); font-size: .9rem; }
details.suppressed { margin-top: 2rem; }
.lanes { min-width: 100%; }
details:has(option.z4:checked) .lanes { width: 400%; } details:has(option.z16:checked) .lanes { width: 1600%; }
details:has(option.z64:checked) .lanes { width: 6400%; }
.lane { position: sticky; left: 0; width: max-content; max-width: 80vw; margin: .35rem 0 0; font-size: .8rem;
  color: var(--faint); }
svg { display: block; width: 100%; height: 1.1rem; background: var(--shade); }
.launch { fill: var(--host); } .graph-launch, .graph { fill: var(--graph); } .copy, .fill { fill: var(--copy); }
.wait { fill: var(--wait); } .query, .allocation { fill: var(--memory); } .kernel { fill: var(--work); }
.eager { fill: var(--idle); } .gap-wait { fill: var(--wait); } .gap-host { fill: var(--idle); }
.gap-allocation { fill: var(--memory); } .gap-device { fill: var(--host); }
rect:hover { opacity: .6; }
.legend { font-size: .8rem; color: var(--faint); }
.named { white-space: nowrap; margin-right: .8em; }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .35em; border-radius: 2px; }
.key.launch, .key.gap-device { background: var(--host); } .key.graph-launch, .key.graph { background: var(--graph); }
.key.copy, .key.fill { background: var(--copy); } .key.wait, .key.gap-wait { background: var(--wait); }
.key.query, .key.allocation, .key.gap-allocation { background: var(--memory); }
.key.kernel { background: var(--work); } .key.eager, .key.gap-host { background: var(--idle); }
.worse { color: var(--error); }
@media (max-width: 30rem) { main { padding: .75rem .75rem 2rem; } article { padding-left: .6rem; }
  td { padding-right: .6rem; min-width: 2rem; } td:last-child { min-width: 7rem; } }
@media print { details > * { display: block; } pre { white-space: pre-wrap; } .filters { display: none; }
  article { content-visibility: visible; } }
"""
