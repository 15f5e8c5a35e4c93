"""Conditions: the answers of tests, the branches that captures take, and the meaning of a test for later lines."""
