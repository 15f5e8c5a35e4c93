"""The ledger, which has the findings of `graphsafe run` about the CUDA graphs of a program, and its output formats."""
