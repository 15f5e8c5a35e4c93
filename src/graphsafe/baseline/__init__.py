"""The baseline of a project: a file of known findings, which scans leave out and people can edit."""
