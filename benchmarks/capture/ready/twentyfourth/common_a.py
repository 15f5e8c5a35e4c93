import torch
from torch import nn


def mlp(device, d=16, h=32, o=4, drop=0.0):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Dropout(drop), nn.Linear(h, o)).to(device)
