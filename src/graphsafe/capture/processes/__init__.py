"""Code for every process of a capture. It finds and ends processes, and keeps functions that the user's code may
replace."""
