"""Turns events into findings, each with a chain of calls that leads to it."""
