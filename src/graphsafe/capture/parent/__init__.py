"""The parent process of a capture. The parent starts and supervises children, and judges their answers. It runs no user
code."""
