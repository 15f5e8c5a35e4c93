"""Code for every process of a capture. The code finds and ends processes, and keeps functions that the user's code may
replace."""
