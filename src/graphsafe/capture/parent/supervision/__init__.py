"""Starts the processes that children fork from; waits for children, limits their time and ends them."""
