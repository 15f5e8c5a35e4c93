"""Recommendation: embeddings, interactions, ranking."""
