"""What calls of libraries do and return: Python itself, torch, and those of the rulebook."""
