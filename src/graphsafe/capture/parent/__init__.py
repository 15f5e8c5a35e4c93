"""The parent process of a capture. It asks children, supervises them and judges their answers. It runs no user code."""
