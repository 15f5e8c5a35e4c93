"""Fixes: the edits that repair a finding, and their application to files."""
