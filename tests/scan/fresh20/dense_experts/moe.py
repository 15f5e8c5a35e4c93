import torch
from torch import nn

from parts import Placement, SwiGLUBank


class CapacityMoE(nn.Module):
    def __init__(self, dim=16, hidden=20, experts=4, k=2, capacity=8):
        super().__init__()
        self.k, self.dim = k, dim
        self.gate = nn.Linear(dim, experts, bias=False)
        self.place = Placement(experts, capacity)
        self.bank = SwiGLUBank(experts, dim, hidden)
        self.register_buffer("balance", torch.zeros(experts))
        self.register_buffer("dropped", torch.zeros(()))

    def forward(self, x):
        tokens = x.shape[0]
        score = self.gate(x).softmax(-1)
        expert = (score + self.balance).topk(self.k, dim=-1).indices
        weight = score.gather(1, expert)
        slot, fits = self.place(expert)
        bins = self.place.experts * self.place.capacity
        source = x.repeat_interleave(self.k, dim=0)
        packed = x.new_zeros(bins + 1, self.dim).index_copy(0, slot, source * fits[:, None])
        out = self.bank(packed[:bins].view(self.place.experts, -1, self.dim)).flatten(0, 1)
        out = torch.cat([out, out.new_zeros(1, self.dim)])
        mixed = out.index_select(0, slot).view(tokens, self.k, self.dim) * weight[..., None]
        self.dropped.add_((~fits).sum())
        load = torch.zeros_like(self.balance).index_add_(0, expert.flatten(), fits.float())
        self.balance.add_((load.mean() - load).sign(), alpha=0.001)
        return x + mixed.sum(1)


def build(device):
    torch.manual_seed(0)
    moe = CapacityMoE().to(device)

    def step(x):
        with torch.no_grad():
            return moe(x)

    return step, (torch.randn(10, 16, device=device),)
