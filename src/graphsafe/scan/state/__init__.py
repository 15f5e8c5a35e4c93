"""State that one step leaves to the next: its writes, the values that only a first step fills, and the changes that a
replay misses."""
