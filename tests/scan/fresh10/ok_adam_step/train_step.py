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


class TrainStep:
    """Forward, backward, clip, update; the rate is a tensor on the device."""

    def __init__(self, model, device, lr=1e-3, max_norm=0.5, total=100):
        self.model = model
        self.max_norm = max_norm
        self.total = total
        self.base_lr = lr
        self.lr = torch.tensor(lr, device=device)
        self.done = torch.zeros((), device=device)
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=self.lr, weight_decay=0.01, capturable=True
        )

    def _clip(self):
        grads = [p.grad for p in self.model.parameters()]
        norms = torch.stack(torch._foreach_norm(grads))
        total = torch.linalg.vector_norm(norms)
        torch._foreach_mul_(grads, (self.max_norm / (total + 1e-6)).clamp_max(1.0))
        return total

    def __call__(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        norm = self._clip()
        self.done.add_(1.0)
        self.lr.copy_(self.base_lr * (1.0 - self.done / self.total).clamp_min(0.0))
        self.optimizer.step()
        return loss.detach(), norm


def build(device):
    torch.manual_seed(0)
    model = nn.Sequential(Block(24), Block(24), nn.Linear(24, 10)).to(device)
    step = TrainStep(model, device)
    x = torch.randn(16, 24, device=device)
    y = torch.randint(0, 10, (16,), device=device)
    return step, (x, y)
