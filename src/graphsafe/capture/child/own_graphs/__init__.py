"""Handles targets that use CUDA graphs themselves: reads their marks, and builds the target without its graphs."""
