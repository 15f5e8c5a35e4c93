import torch

from models import LM, graphed


class Speculator:
    def __init__(self, device, k=3, vocab=40):
        self.k = k
        self.small, self.big = LM(vocab, 8).to(device), LM(vocab, 24).to(device)
        self.draft_ids = torch.zeros(1, 8, dtype=torch.long, device=device)
        self.verify_ids = torch.zeros(1, 8 + k, dtype=torch.long, device=device)
        self.draft_graph, self.draft_logits = graphed(lambda: self.small(self.draft_ids)[:, -1])
        self.verify_graph, self.verify_logits = graphed(lambda: self.big(self.verify_ids))

    def propose(self, context):
        ids, proposals, scores = context.clone(), [], []
        for _ in range(self.k):
            self.draft_ids = ids[:, -8:]
            self.draft_graph.replay()
            scores.append(self.draft_logits)
            token = self.draft_logits.argmax(-1, keepdim=True)
            proposals.append(token)
            ids = torch.cat([ids, token], 1)
        return torch.cat(proposals, 1), torch.stack(scores, 1)

    def round(self, context):
        tokens, scores = self.propose(context)
        self.verify_ids.copy_(torch.cat([context[:, -8:], tokens], 1))
        self.verify_graph.replay()
        target = self.verify_logits[:, -self.k - 1:-1]
        agree = (target.argmax(-1) == tokens).cumprod(1).sum()
        n = int(agree)
        return torch.cat([context, tokens[:, :max(n, 1)]], 1), (target - scores).abs().mean()


def main(device="cuda"):
    torch.manual_seed(10)
    spec = Speculator(device)
    context = torch.randint(0, 40, (1, 8), device=device)
    for _ in range(6):
        context, gap = spec.round(context)
    print(context.shape, gap.item())


if __name__ == "__main__":
    main()
