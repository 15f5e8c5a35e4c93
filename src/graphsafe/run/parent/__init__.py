"""The part of `graphsafe run` that starts the program and judges what its processes saw."""
