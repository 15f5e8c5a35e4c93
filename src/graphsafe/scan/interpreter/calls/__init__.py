"""Calls: which function a call means, what its parameters are, and what comes back."""
