"""The parent process of a capture. It starts and supervises children, and judges their answers. It runs no user
code."""
