"""The part of `graphsafe run` that starts the program and makes findings of the facts that its processes saw."""
