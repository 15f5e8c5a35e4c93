"""Brings new items into the catalog while the service runs."""

import torch
from stages import ITEMS, WIDTH, Light


class CatalogFeed:
    """Stands for a feature store; each version holds the vectors of all items on the host."""

    def __init__(self):
        self.version = 0

    def fetch(self) -> torch.Tensor:
        self.version += 1
        return torch.randn(ITEMS, WIDTH)


def refresh(light: Light, feed: CatalogFeed) -> None:
    light.catalog = feed.fetch().to("cuda")
