"""Repairs with one right answer: the edits for a finding, and their application to files."""
