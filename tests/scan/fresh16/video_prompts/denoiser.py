"""A denoiser of short clips with guidance by a prompt and a negative one."""

import torch.nn as nn

FRAMES, CHANNELS, SIDE, PROMPT = 3, 4, 8, 20


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Conv3d(CHANNELS, 16, 3, padding=1)
        self.shift = nn.Linear(PROMPT, 16)
        self.leave = nn.Conv3d(16, CHANNELS, 3, padding=1)

    def forward(self, latent, prompt):
        hidden = self.enter(latent) + self.shift(prompt).view(-1, 16, 1, 1, 1)
        return self.leave(nn.functional.silu(hidden))


class Prompts(nn.Module):
    """Stands for the text encoder: a bag of tokens."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, PROMPT)

    def forward(self, tokens):
        return self.table(tokens).mean(0, keepdim=True)
