"""The baseline of a project: a file with known findings. Scans do not report these findings, and people can edit the
file."""
