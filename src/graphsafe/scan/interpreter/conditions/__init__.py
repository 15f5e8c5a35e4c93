"""Conditions: the results of tests, the branches that captures take, and the facts that follow from a test."""
