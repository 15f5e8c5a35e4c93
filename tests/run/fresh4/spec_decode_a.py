"""Speculative decoding: a graphed draft proposes K tokens, the target verifies them at once."""
import torch
from torch import nn

VOCAB, DIM, BATCH, K, ROUNDS = 64, 48, 4, 4, 15


class Lm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, tokens):
        return self.head(torch.tanh(self.mix(self.embed(tokens)))).softmax(-1)


class Draft:
    def __init__(self, net, device):
        self.token = torch.zeros(BATCH, dtype=torch.long, device=device)
        self.kept = torch.zeros(K, BATCH, VOCAB, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                net(self.token)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.probs = net(self.token)

    def propose(self, token):
        tokens, probs = [], []
        for i in range(K):
            self.token.copy_(token)
            self.graph.replay()
            token = self.probs.argmax(-1)
            tokens.append(token)
            probs.append(self.probs)
        return torch.stack(tokens), torch.stack(probs)


def verify(target, last, tokens, draft_probs, coin):
    inputs = torch.cat([last[None], tokens])
    target_probs = target(inputs.flatten()).view(K + 1, BATCH, VOCAB)
    p = target_probs[:K].gather(-1, tokens[..., None]).squeeze(-1)
    q = draft_probs.gather(-1, tokens[..., None]).squeeze(-1)
    accepted = (coin < p / q.clamp_min(1e-6)).long().cumprod(0).sum(0)
    bonus = target_probs.argmax(-1)
    return accepted, bonus.gather(0, accepted[None]).squeeze(0)


@torch.no_grad()
def main():
    device = torch.device("cuda")
    torch.manual_seed(13)
    target, draft_net = Lm(DIM).to(device), Lm(DIM // 2).to(device)
    draft = Draft(draft_net, device)
    coins = torch.rand(ROUNDS, K, BATCH, device=device)
    last = torch.arange(BATCH, device=device)
    total = torch.zeros(BATCH, dtype=torch.long, device=device)
    for coin in coins:
        tokens, probs = draft.propose(last)
        accepted, last = verify(target, last, tokens, probs, coin)
        total += accepted
    print(f"accepted {total.sum().item()} of {ROUNDS * K * BATCH}")


if __name__ == "__main__":
    main()
