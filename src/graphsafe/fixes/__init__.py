"""Repairs that have one right answer: what they would write for a finding, and how they are applied to files."""
