"""Calls of git, and the lines of a repository that have changed."""
