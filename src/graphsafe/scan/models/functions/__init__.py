"""The results of functions of Python, of PyTorch and of training loops."""
