"""Speech recogniser's encoder over packed utterances: the collator packs, the step runs a bidirectional GRU."""
import torch
import torch.nn as nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import graphsafe

PLANS = [[10, 7, 5, 2], [10, 6, 5, 3]]  # lengths of the utterances in a batch; both have 24 frames


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(20)
        self.rnn = nn.GRU(20, 24, bidirectional=True)
        self.head = nn.Linear(48, 10)

    def forward(self, packed):
        frames = PackedSequence(self.norm(packed.data), packed.batch_sizes)
        out, last = self.rnn(frames)
        return self.head(out.data), last


def sizes(lengths, longest):
    return [sum(1 for n in lengths if n > t) for t in range(longest)]


def build(device):
    encoder = Encoder().to(device).eval().requires_grad_(False)
    example = torch.randn(10, 4, 20, device=device)
    packed = pack_padded_sequence(example, torch.tensor(PLANS[0]))

    def refresh(args, kwargs, k):
        plan = PLANS[1] if k >= 70 and k % 3 == 0 else PLANS[0]
        args[0].data.copy_(torch.randn(args[0].data.shape))
        args[0].batch_sizes.copy_(torch.tensor(sizes(plan, 10)))

    return graphsafe.Step(encoder, (packed,), {}, refresh=refresh)
