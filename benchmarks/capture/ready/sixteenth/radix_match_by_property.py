"""Prefix cache as a radix tree: a property sums the matched nodes on the host, and the step slices the keys by it."""
import torch

import graphsafe


class Node:
    __slots__ = ("parent", "size")

    def __init__(self, size, parent=None):
        self.size, self.parent = size, parent


class Request:
    def __init__(self, node, device):
        self._node = node

    @property
    def node(self):
        return self._node

    @node.setter
    def node(self, node):
        self._node = node

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

    def extend(query):
        matched = request.matched
        weights = torch.softmax(query @ keys[:matched].t() / dim**0.5, -1)
        return query + weights @ values[:matched]

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, dim))
        if k % 40 == 34:
            request.node = child
        elif k % 40 == 39:
            request.node = leaf

    return graphsafe.Step(extend, (torch.randn(4, dim, device=device),), refresh=refresh)
