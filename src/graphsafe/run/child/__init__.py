"""The part of `graphsafe run` that lives in the processes of the program."""
