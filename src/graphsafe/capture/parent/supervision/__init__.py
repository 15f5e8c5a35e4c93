"""Starts the processes from which children are forked. Waits for children, limits their time and ends them."""
