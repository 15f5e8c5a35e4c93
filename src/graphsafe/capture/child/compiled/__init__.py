"""Finds out how `torch.compile` with CUDA graphs runs a step, and what it leaves out of its graphs."""
