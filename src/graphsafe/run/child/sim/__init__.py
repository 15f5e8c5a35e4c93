"""Watches the graphs of the simulated device."""
