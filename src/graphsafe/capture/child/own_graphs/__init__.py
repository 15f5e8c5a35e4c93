"""Handles targets that already use CUDA graphs: reads their marks, and builds the target without its own graphs."""
