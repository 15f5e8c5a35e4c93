"""Turns events into findings, each with the chain of calls that leads to it."""
