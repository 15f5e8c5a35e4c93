"""A ranking service reads its boost from the settings database at every request."""
import sqlite3

import torch

import graphsafe


class Settings:
    def __init__(self):
        self.db = sqlite3.connect(":memory:", check_same_thread=False)
        self.db.execute("create table settings (name text primary key, value real)")
        self.put("boost", 1.5)

    def put(self, name, value):
        self.db.execute("insert or replace into settings values (?, ?)", (name, value))

    def get(self, name):
        return self.db.execute("select value from settings where name = ?", (name,)).fetchone()[0]


def build(device):
    settings = Settings()
    table = torch.randn(64, 16).to(device)

    def rank(query, fresh):
        scores = query @ table.T
        return (scores + settings.get("boost") * fresh).topk(8).values

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))
        if k == 100:
            settings.put("boost", 4.0)

    args = (torch.randn(4, 16, device=device), torch.rand(64, device=device))
    return graphsafe.Step(rank, args, refresh=refresh)
