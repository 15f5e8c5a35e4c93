"""Recurrent state that keeps its memory."""

import torch


class StateStore:
    def __init__(self, batch, width, device):
        self._shape = (batch, width)
        self._device = device
        self._items = {}

    def add(self, key):
        self._items[key] = torch.zeros(self._shape, device=self._device)
        return self

    def write(self, key, value):
        self._items[key].copy_(value)

    def __getitem__(self, key):
        return self._items[key]

    def clear(self):
        for value in self._items.values():
            value.zero_()
