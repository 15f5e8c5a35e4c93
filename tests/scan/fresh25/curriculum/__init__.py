"""Curriculum training of a sequence regressor with micro-batches: python -m curriculum.train"""
