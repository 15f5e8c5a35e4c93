"""Watches the CUDA graphs of a running program: `graphsafe run`, `graphsafe.watch()` and the doors into engines.

`entry/` enters the program's Python processes. In each, `child/` watches captures and replays and writes a part of the
ledger; `parent/` runs the program, joins the parts and judges them.
"""
