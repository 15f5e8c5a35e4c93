"""Samplers for diffusion models."""
