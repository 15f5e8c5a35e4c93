"""Message passing service: features and edges in, node scores out."""
import torch

from .model import NodeScorer


def build(device, nodes: int = 64, edges: int = 256):
    torch.manual_seed(0)
    model = NodeScorer(16, 32, nodes).to(device).eval()
    x = torch.randn(nodes, 16, device=device)
    edge_index = torch.randint(0, nodes, (2, edges), device=device)

    @torch.no_grad()
    def step(x, edge_index):
        return model(x, edge_index)

    return step, (x, edge_index)
