"""Checks for the inputs of captured graphs: whether each replay gets new values in all of their memory."""
