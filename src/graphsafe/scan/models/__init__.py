"""Models of libraries: the effects and results of calls into Python itself, torch, and those of the rulebook."""
