"""Follows the results of graphs: the objects that hold them, the replays that overwrite them, and later reads."""
