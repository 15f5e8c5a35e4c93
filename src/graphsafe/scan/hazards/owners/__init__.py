"""Tells apart the methods and attributes of different classes in a file that have the same names."""
