"""Inputs of graphs: tensors that are passed to helpers for the capture, and tensors that a batch fills only in part."""
