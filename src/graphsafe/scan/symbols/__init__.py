"""The meaning of names across files: definitions, imports, classes, registered operators."""
