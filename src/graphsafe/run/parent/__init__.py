"""The part of `graphsafe run` that starts the program and turns the facts from its processes into findings."""
