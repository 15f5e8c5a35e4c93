"""Forbids what a block of the running program must not do: `graphsafe.forbid` and `graphsafe.allow`, in-process."""
