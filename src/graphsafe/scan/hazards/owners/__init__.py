"""Classes of a file whose methods and attributes have the same names."""
