"""Finds the roots and the files that lead to them. A root is a function at which hot code (code that runs in every
step) begins."""
