"""State that one step leaves to the next: writes, values that only a first step computes, and changes that a replay
misses.
"""
