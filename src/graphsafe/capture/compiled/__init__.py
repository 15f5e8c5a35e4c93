"""What `torch.compile` makes of a step with CUDA graphs of its own, and what it leaves out of them."""
