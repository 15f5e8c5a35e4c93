"""Finds the roots, which are the functions at which hot code (code that runs in every step) begins, and the files that
lead to them."""
