"""A small serving engine: requests come in, are scheduled in batches, and decode with a paged KV cache and CUDA graphs.

Lines that end in `# guilty: CODE region` are wrong on purpose, or wait where a real engine waits.
"""
