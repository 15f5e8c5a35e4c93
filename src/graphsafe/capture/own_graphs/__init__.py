"""Targets that use CUDA graphs already: what their marks say, and the same target without graphs of its own."""
