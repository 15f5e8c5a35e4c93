"""Graphs that are stored under keys: values that a key lacks, and captures that are repeated in each iteration."""
