"""Child processes of a capture. They build the user's step, run it and answer with plain data."""
