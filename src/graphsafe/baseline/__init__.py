"""The baseline of a project: known findings, in a file that people can edit, which its scans leave out."""
