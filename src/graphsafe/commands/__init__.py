"""The commands with many options, each in its own module, and the parts that they share."""
