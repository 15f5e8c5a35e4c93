"""The ledger: the findings of `graphsafe run` about the CUDA graphs of a running program, and its forms."""
