"""One chat step: a token in, the next token out."""
import torch

from tinychat.model import Chat


class Talker:
    def __init__(self, chat: Chat, device: torch.device, room: int, penalty: float = 1.2):
        self.chat = chat
        self.memories = chat.memories(device, room)
        self.counts = torch.zeros(1, chat.embed.num_embeddings, device=device)
        self.penalty = penalty
        self.device = device

    def reply(self, token: torch.Tensor) -> torch.Tensor:
        logits = self.chat(token, self.memories)
        scale = torch.tensor([self.penalty], device=self.device)
        logits = torch.where(self.counts > 0, logits / scale, logits)
        chosen = logits.argmax(-1, keepdim=True)
        self.counts.scatter_add_(1, chosen, torch.ones_like(chosen, dtype=self.counts.dtype))
        token.copy_(chosen)
        return chosen


def build(device):
    torch.manual_seed(0)
    chat = Chat(vocab=256, width=64, heads=4, depth=4).to(device).eval().requires_grad_(False)
    talker = Talker(chat, device, room=512)
    first = torch.full((1, 1), 7, dtype=torch.int64, device=device)
    return talker.reply, (first,)
