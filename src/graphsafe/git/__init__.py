"""Calls of git, and what a repository says of its lines."""
