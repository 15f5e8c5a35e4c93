"""Calls of git, and the changes of a repository's lines."""
