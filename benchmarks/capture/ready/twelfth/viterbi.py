"""Viterbi decoding over a fixed number of frames, with back-pointers and the way back on the device."""

import torch

import graphsafe


def build(device):
    frames, states = 12, 9
    transition = torch.randn(states, states, device=device)
    path = torch.zeros(frames, dtype=torch.long, device=device)

    def decode(emission):
        score, back = emission[0], []
        for t in range(1, frames):
            best, origin = (score[:, None] + transition).max(0)
            score = best + emission[t]
            back.append(origin)
        state = score.argmax()
        path[-1].copy_(state)
        for t in range(frames - 2, -1, -1):
            state = back[t].gather(0, state[None])[0]
            path[t].copy_(state)
        return path, score.amax()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(frames, states) * 2)

    return graphsafe.Step(decode, (torch.randn(frames, states, device=device),), refresh=refresh)
