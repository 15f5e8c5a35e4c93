"""The execution of a function over abstract values: the frame that handlers are given, and the budget of calls."""
