"""Processes of a capture: how children start, from what they fork, and how they and all that they leave end."""
