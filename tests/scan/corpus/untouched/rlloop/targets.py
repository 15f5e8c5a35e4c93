import torch
from rlloop import agents, loops, storage
from torch import nn

SIZE = 4


def obs(device, rows=2):
    return torch.randn(rows, SIZE, device=device)


def policy(device):
    return nn.Linear(SIZE, SIZE).to(device).requires_grad_(False)


def build_epsilon_greedy(device):
    return agents.Greedy(policy(device)).act, (obs(device),)


def build_epsilon_decay(device):
    return agents.Decaying(policy(device)).act, (obs(device),)


def build_correlated_actions(device):
    return agents.Noisy(policy(device), agents.OrnsteinUhlenbeck(SIZE, device)).act, (obs(device),)


def build_correlated_actions_inplace(device):
    return agents.Noisy(policy(device), agents.OrnsteinUhlenbeckInPlace(SIZE, device)).act, (obs(device),)


def build_policy_memory(device):
    return agents.Recurrent(SIZE, device).to(device).requires_grad_(False), (obs(device),)


def build_secret_ban(device):
    return agents.MaskedPolicy(SIZE).to(device), (obs(device),)


def build_entropy_weight(device):
    return agents.SoftCritic(device).loss, (obs(device), obs(device))


def build_target_clock(device):
    return agents.Target(SIZE, device).step, (torch.randn(SIZE, device=device),)


def build_replay_pointer(device):
    return storage.Replay(5, SIZE, device).add, (obs(device)[0],)


def build_replay_pointer_tensor(device):
    return storage.TensorReplay(5, SIZE, device).add, (obs(device)[0],)


def build_replay_sample(device):
    return storage.UniformReplay(6, SIZE, device).sample, (obs(device, 6),)


def build_minibatch_rows(device):
    return lambda rows: storage.epoch(storage.Rollout(rows)), (obs(device, 6),)


def build_minibatch_rows_device(device):
    return lambda rows: storage.epoch(storage.DeviceRollout(rows)), (obs(device, 6),)


def build_observed_rows(device):
    return storage.Normalizer(SIZE, device), (obs(device),)


def build_episode_ends(device):
    return storage.returns, (torch.randn(3, device=device), torch.tensor([False, True, False], device=device))


def build_environment_step(device):
    return loops.Collector(loops.Walk(SIZE), policy(device)).step, (obs(device),)


def build_patience(device):
    return loops.Learner(loops.Patience(torch.ones((), device=device))).learn, (obs(device),)
