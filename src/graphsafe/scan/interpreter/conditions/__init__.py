"""Conditions: the results of tests, the branches that captures take, and the facts that later lines learn from
a test."""
