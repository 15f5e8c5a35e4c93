import torch
import torch.nn as nn

DENSE_COLUMNS = ["age_days", "price", "ctr_7d", "ctr_30d", "stock", "margin", "rating", "returns"]
SCORED = ["price", "ctr_7d", "rating"]


class FeatureTower(nn.Module):
    def __init__(self, categories: int, dim: int):
        super().__init__()
        self.table = nn.Embedding(categories, dim)
        self.dense = nn.Linear(len(SCORED), dim)
        self.picked = [DENSE_COLUMNS.index(c) for c in SCORED]

    def forward(self, category, dense):
        chosen = dense[:, self.picked]
        return self.table(category) + self.dense(torch.log1p(chosen.abs()))
