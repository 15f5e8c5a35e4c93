"""A streaming vocoder: mel frames in, audio out, one CUDA graph per padded length."""
