"""State that one step leaves to the next: its writes, values that only a first step fills, and changes that a replay
misses."""
