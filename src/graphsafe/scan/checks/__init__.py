"""Checks that need more than one place in the code: streams, state across steps, the capture itself."""
