from .attention import PagedAttention, build
from .pages import Pages, Table

__all__ = ["PagedAttention", "Pages", "Table", "build"]
