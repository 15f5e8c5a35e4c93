"""Watches the CUDA graphs of a running program: `graphsafe run`, `graphsafe.watch()` and the entry points for engines.

`entry/` loads graphsafe into the program's Python processes. In each process, `child/` watches captures and replays and
writes its part of the ledger, the record of a run. `parent/` starts the program, joins the parts and turns them into
findings.
"""
