import torch
import torch.nn as nn

from features import DENSE_COLUMNS, FeatureTower


class Ranker(nn.Module):
    def __init__(self, categories: int = 50, dim: int = 24):
        super().__init__()
        self.tower = FeatureTower(categories, dim)
        self.user = nn.Linear(16, dim)
        self.bias = nn.Parameter(torch.zeros(()))

    def business_rules(self, score, dense):
        """Items without stock go below everything else."""
        missing = dense[:, DENSE_COLUMNS.index("stock")] <= 0
        floor = score.min() - 1.0
        penalised = score[missing] * 0.0 + floor
        return score.masked_scatter(missing, penalised)

    def forward(self, user, category, dense):
        items = self.tower(category, dense)
        score = items @ self.user(user) + self.bias
        return self.business_rules(score, dense)


def build(device):
    torch.manual_seed(22)
    model = Ranker().to(device).eval()
    for p in model.parameters():
        p.requires_grad_(False)
    user = torch.randn(16, device=device)
    category = torch.randint(0, 50, (64,), device=device)
    dense = torch.randn(64, len(DENSE_COLUMNS), device=device)
    return model, (user, category, dense)


if __name__ == "__main__":
    model, args = build(torch.device("cuda"))
    print(model(*args).topk(5).indices)
