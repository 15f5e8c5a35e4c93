"""Conditions: the answers of tests, the branches that captures take, and the facts that a test gives for later
lines."""
