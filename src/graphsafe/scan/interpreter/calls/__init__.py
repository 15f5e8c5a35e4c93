"""Calls: the functions that a call may run, their parameters, and the value that the call returns."""
