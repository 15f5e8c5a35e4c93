"""Forbids acts to a block of the running program: `graphsafe.forbid` and `graphsafe.allow`, in-process."""
