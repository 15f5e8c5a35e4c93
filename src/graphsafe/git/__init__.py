"""Runs git, and finds the lines of a repository that have changed."""
