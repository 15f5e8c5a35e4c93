"""Finds the user's lines that ran, and what they did."""
