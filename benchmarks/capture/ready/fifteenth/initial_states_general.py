"""State-space prefill: the graph holds the path with initial states, which is right for batches without any, too."""
import torch

import graphsafe


class Mixer:
    def __init__(self, device, slots=6, dim=8):
        self.decay = torch.rand(dim, device=device) * 0.5 + 0.4
        self.inp = torch.randn(dim, dim, device=device) / 3
        self.states = torch.zeros(slots, dim, device=device)

    def forward(self, x, metadata):
        u = x @ self.inp
        h = torch.zeros_like(u[:, 0])
        if metadata["prep_initial_states"]:
            kept = metadata["has_initial_states"].unsqueeze(1)
            h = torch.where(kept, self.states.index_select(0, metadata["slots"]), h)
        rows = []
        for t in range(u.shape[1]):
            h = self.decay * h + u[:, t]
            rows.append(h)
        self.states.index_copy_(0, metadata["slots"], h)
        return torch.stack(rows, 1)


class Builder:
    def __init__(self, device, batch=3):
        self.metadata = {
            "slots": torch.arange(batch, device=device),
            "has_initial_states": torch.zeros(batch, dtype=torch.bool, device=device),
        }
        self.build([5, 0, 0])

    def build(self, context_lens):
        has = torch.tensor([n > 0 for n in context_lens])
        self.metadata["has_initial_states"].copy_(has)
        self.metadata["prep_initial_states"] = bool(has.any())


def build(device):
    mixer, builder = Mixer(device), Builder(device)

    def step(x):
        return torch.tanh(mixer.forward(x, builder.metadata))

    def refresh(args, kwargs, k):
        builder.build([0, 64 if k % 3 == 0 else 0, 0])
        args[0].copy_(torch.randn(3, 5, 8))

    return graphsafe.Step(step, (torch.randn(3, 5, 8, device=device),), refresh=refresh)
