"""Graphs by key: the values that a key lacks, and captures that each iteration repeats."""
