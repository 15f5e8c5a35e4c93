"""Known findings of a project: they are recorded in a file that people edit, and left out of its scans."""
