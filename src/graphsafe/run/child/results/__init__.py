"""Follows the results of graphs: their holders, the replays that overwrite them, and later reads."""
