"""The inputs of graphs: tensors that code hands to helpers which capture, and tensors that batches fill in part."""
