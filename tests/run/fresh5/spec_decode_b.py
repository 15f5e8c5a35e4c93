"""Greedy speculative decoding with a graph for the drafter and one for the target.

Everything stays on the device: the number of accepted tokens is a tensor, and
the next token is gathered with it.
"""
from dataclasses import dataclass

import torch

device = torch.device("cuda")
VOCAB, DIM, DRAFT = 1024, 512, 4
ROUNDS = 80


@dataclass
class Weights:
    embed: torch.Tensor
    mix_target: torch.Tensor
    mix_draft: torch.Tensor
    gain: torch.Tensor


@dataclass
class Runner:
    graph: torch.cuda.CUDAGraph
    tokens: torch.Tensor
    picks: torch.Tensor
    head: torch.Tensor


def make_weights(seed):
    gen = torch.Generator().manual_seed(seed)
    embed = torch.randn(VOCAB, DIM, generator=gen)
    mix = torch.randn(DIM, DIM, generator=gen) / DIM**0.5
    noise = torch.randn(DIM, DIM, generator=gen) / DIM**0.5
    gain = torch.rand(DIM, generator=gen) + 0.5
    return Weights(*(t.to(device) for t in (embed, mix, mix + 0.1 * noise, gain)))


def draft_pick(w, head, tokens):
    return (torch.tanh(w.embed[tokens] @ w.mix_draft) @ head.t()).argmax(-1)


def target_pick(w, tokens):
    hidden = torch.tanh(w.embed[tokens] @ w.mix_target) * w.gain
    return (hidden @ w.embed.t()).argmax(-1)


def record(fn, tokens):
    """Warm up `fn(tokens)` and capture it on a stream of its own."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            fn(tokens)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        picks = fn(tokens)
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph, picks


def build_target(w):
    tokens = torch.zeros(DRAFT + 1, dtype=torch.long, device=device)
    graph, picks = record(lambda t: target_pick(w, t), tokens)
    return Runner(graph, tokens, picks, w.embed)


def build_drafter(w):
    # The gain of the final norm is folded into the head once, not per token.
    head = w.embed * w.gain
    tokens = torch.zeros(1, dtype=torch.long, device=device)
    graph, picks = record(lambda t: draft_pick(w, head, t), tokens)
    return Runner(graph, tokens, picks, head)


def run(runner, tokens):
    runner.tokens.copy_(tokens)
    runner.graph.replay()
    return runner.picks.clone()


def generate(w, drafter, target, first):
    """Yields (input token, proposals, accepted count, cache snapshot) per round."""
    cache = torch.zeros(VOCAB, DIM, device=device)
    token = first
    for _ in range(ROUNDS):
        chain = [token]
        for _ in range(DRAFT):
            chain.append(run(drafter, chain[-1]))
        window = torch.cat(chain)
        picks = run(target, window)
        accepted = (picks[:-1] == window[1:]).long().cumprod(0).sum(0, keepdim=True)
        cache.index_add_(0, window, w.embed[window] * 0.01)
        yield token, window[1:], accepted, cache.clone()
        token = (picks.gather(0, accepted) + 1) % VOCAB


def main():
    w = make_weights(seed=11)
    target = build_target(w)
    drafter = build_drafter(w)
    first = torch.tensor([3], device=device)
    rounds = list(generate(w, drafter, target, first))

    head = w.embed * w.gain
    misses = []
    for token, proposals, _, _ in rounds:
        want = []
        for _ in range(DRAFT):
            token = draft_pick(w, head, token)
            want.append(token)
        misses.append((torch.cat(want) != proposals).sum())
    missed = int(torch.stack(misses).sum())
    rate = float(torch.stack([r[2] for r in rounds]).float().mean()) / DRAFT
    print("RESULT", round(rate, 4))
    print("CHECK ok" if missed == 0 else f"CHECK wrong: {missed} proposals are not the drafter's")


if __name__ == "__main__":
    main()
