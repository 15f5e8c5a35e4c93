"""The ledger of `graphsafe run`, and its formats. The ledger describes the CUDA graphs of a program and lists the
findings."""
