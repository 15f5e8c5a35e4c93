"""The state that one step passes to the next: writes, values that only a first step computes, and changes that a replay
misses.
"""
