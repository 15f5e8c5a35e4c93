"""The answers of child processes: plain data that a child makes and the parent reads."""
