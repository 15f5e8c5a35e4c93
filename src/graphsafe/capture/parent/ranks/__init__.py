"""Leads several ranks of one target."""
