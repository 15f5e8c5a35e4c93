"""The parent process of a capture: asks children, supervises them and judges their answers. It runs no user code."""
