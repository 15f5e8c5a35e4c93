"""Calls: the functions that a call may mean, their parameters, and the value that the call returns."""
