from .book import Book, Shelf
from .desk import Desk

__all__ = ["Book", "Shelf", "Desk"]
