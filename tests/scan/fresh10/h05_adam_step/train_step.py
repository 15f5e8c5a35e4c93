import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Classifier(nn.Module):
    def __init__(self, dim=24, classes=10, depth=2):
        super().__init__()
        self.blocks = nn.Sequential(*[Block(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        return self.head(self.blocks(x))


class TrainStep:
    """One optimisation step: forward, backward, clip, update."""

    def __init__(self, model, lr=1e-3, max_norm=0.5):
        self.model = model
        self.max_norm = max_norm
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)

    def _clip(self):
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        norms = torch.stack(torch._foreach_norm(grads))
        total = torch.linalg.vector_norm(norms)
        if total > self.max_norm:
            torch._foreach_mul_(grads, self.max_norm / (total + 1e-6))
        return total

    def __call__(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        norm = self._clip()
        self.optimizer.step()
        return loss.detach(), norm


def build(device):
    torch.manual_seed(0)
    step = TrainStep(Classifier().to(device))
    x = torch.randn(16, 24, device=device)
    y = torch.randint(0, 10, (16,), device=device)
    return step, (x, y)
