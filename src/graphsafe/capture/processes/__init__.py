"""Code for every process of a capture: it finds and ends processes, and keeps functions that user code cannot
replace."""
