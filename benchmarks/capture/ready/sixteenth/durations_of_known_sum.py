"""A length regulator of speech synthesis: phonemes are repeated by durations with a fixed number of frames."""
import torch

import graphsafe


class Regulator(torch.nn.Module):
    def __init__(self, dim=6, frames=24):
        super().__init__()
        self.encoder = torch.nn.Linear(dim, dim)
        self.decoder = torch.nn.Conv1d(dim, 4, 3, padding=1)
        self.frames = frames

    def forward(self, phonemes, durations):
        hidden = torch.relu(self.encoder(phonemes))
        long = hidden.repeat_interleave(durations, dim=0, output_size=self.frames)
        return self.decoder(long.t().unsqueeze(0))[0]


def durations_of(frames, phonemes):
    """Whole durations of at least one frame; they always add up to frames."""
    cuts = torch.randperm(frames - 1)[: phonemes - 1].sort().values + 1
    edges = torch.cat([torch.tensor([0]), cuts, torch.tensor([frames])])
    return edges.diff()


def build(device):
    model = Regulator().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(7, 6))
        args[1].copy_(durations_of(model.frames, 7))

    return graphsafe.Step(
        model, (torch.randn(7, 6, device=device), durations_of(model.frames, 7).to(device)), refresh=refresh
    )
