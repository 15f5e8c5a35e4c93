"""Parts of language models."""
