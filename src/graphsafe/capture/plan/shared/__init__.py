"""Functions, statements and marks in source, for both sides of planning."""
