"""Runs git, and finds the changed lines of a repository."""
