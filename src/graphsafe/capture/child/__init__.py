"""Child processes of a capture: build the user's step, run it and answer with plain data."""
