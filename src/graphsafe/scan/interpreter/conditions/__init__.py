"""Conditions: what a test answers, which branch captures take, and what it says of the lines behind it."""
