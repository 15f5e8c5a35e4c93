"""Functions and methods whose results are outputs of graphs."""
