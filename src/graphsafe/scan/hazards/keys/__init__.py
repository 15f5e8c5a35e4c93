"""Graphs by key: the values that a key lacks, and captures that are repeated in each iteration."""
