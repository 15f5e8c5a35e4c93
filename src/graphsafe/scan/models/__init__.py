"""Models of library calls: the effects and results of Python's builtins, of torch, and of libraries in the rulebook."""
