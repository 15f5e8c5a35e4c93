"""Prefix cache as a radix tree: the sum of matched nodes is written to a device length, and the step masks by it."""
import torch

import graphsafe


class Node:
    __slots__ = ("parent", "size")

    def __init__(self, size, parent=None):
        self.size, self.parent = size, parent


class Request:
    def __init__(self, node, device):
        self._node = node
        self.length = torch.zeros(1, dtype=torch.long, device=device)
        self.node = node

    @property
    def node(self):
        return self._node

    @node.setter
    def node(self, node):
        self._node = node
        self.length.fill_(self.matched)

    @property
    def matched(self):
        total, node = 0, self._node
        while node is not None:
            total, node = total + node.size, node.parent
        return total


def build(device, dim=8, longest=24):
    root = Node(6)
    child = Node(7, root)
    leaf = Node(5, child)
    request = Request(leaf, device)
    keys = torch.randn(longest, dim, device=device)
    values = torch.randn(longest, dim, device=device)
    positions = torch.arange(longest, device=device)

    def extend(query):
        scores = query @ keys.t() / dim**0.5
        weights = torch.softmax(scores.masked_fill(positions >= request.length, float("-inf")), -1)
        return query + weights @ values

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, dim))
        if k % 40 == 34:
            request.node = child
        elif k % 40 == 39:
            request.node = leaf

    return graphsafe.Step(extend, (torch.randn(4, dim, device=device),), refresh=refresh)
