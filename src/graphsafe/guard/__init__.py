"""`graphsafe.forbid` and `graphsafe.allow`, which forbid operations in a block of the running program."""
