"""The ledger of `graphsafe run`, which describes the CUDA graphs of a program and lists the findings, and its
formats."""
