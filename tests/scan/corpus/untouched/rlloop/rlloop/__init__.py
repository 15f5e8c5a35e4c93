"""Agents, and the loops that train them."""
