"""The execution of a function over abstract values: the frame that handlers receive, and the budget of calls."""
