"""Finds out how `torch.compile` with CUDA graphs runs a step, and which code it leaves out of its graphs."""
