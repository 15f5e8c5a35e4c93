from .batch import GraphBatch
from .network import MoleculeNet

__all__ = ["GraphBatch", "MoleculeNet"]
