"""Known findings of a project: recorded in a file that people edit, and left out of its scans."""
