"""Follows values of the program into the code that a capture ran."""
