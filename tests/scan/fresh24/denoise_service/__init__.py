"""Speech denoising for many calls at once; every padded batch size has its own CUDA graph."""
