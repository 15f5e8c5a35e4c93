"""Steps of opacus and pytorch_tabnet: private training, and attention over columns of a table."""

import torch
from torch import nn


def private_training(kind, **options):
    """An optimizer's step with clipped gradients of each example and noise."""

    def build(device):
        from opacus import PrivacyEngine
        from torch.utils.data import DataLoader, TensorDataset

        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(0, 4, (64,))), batch_size=16)
        engine = PrivacyEngine()
        criterion = nn.CrossEntropyLoss()
        made = engine.make_private(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            noise_multiplier=1.0,
            criterion=criterion,
            max_grad_norm=[1.0] * 6 if options.get("clipping") == "per_layer" else 1.0,
            poisson_sampling=True,
            **options,
        )
        model, optimizer = made[0], made[1]
        if options.get("grad_sample_mode") == "ghost":
            criterion = made[2]

        def step(x, y):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.item() if kind == "read" else None

        return step, (torch.randn(16, 8, device=device), torch.randint(0, 4, (16,), device=device))

    return build


flat_clipping_training = private_training("flat")
layer_clipping_training = private_training("layers", clipping="per_layer")
adaptive_clipping_training = private_training(
    "adaptive",
    clipping="adaptive",
    target_unclipped_quantile=0.5,
    clipbound_learning_rate=0.2,
    max_clipbound=10.0,
    min_clipbound=0.1,
    unclipped_num_std=1.0,
)
ghost_clipping_training = private_training("ghost", grad_sample_mode="ghost")
functional_training = private_training("functorch", grad_sample_mode="functorch")


def private_sequences_training(device):
    """A recurrent net whose gradients are taken for each example; batches in two physical parts."""
    from opacus import GradSampleModule
    from opacus.layers import DPLSTM
    from opacus.optimizers import DPOptimizer
    from torch.nn.utils.rnn import pack_padded_sequence

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.rnn, self.out = nn.Embedding(20, 8), DPLSTM(8, 8, batch_first=True), nn.Linear(8, 4)

        def forward(self, tokens, lengths):
            packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
            _, (hidden, _) = self.rnn(packed)
            return self.out(hidden[-1])

    model = GradSampleModule(Tagger().to(device))
    base = torch.optim.Adam(model.parameters(), lr=1e-3)
    optimizer = DPOptimizer(base, noise_multiplier=0.8, max_grad_norm=1.0, expected_batch_size=8)

    def step(tokens, lengths, y):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(tokens, lengths), y).backward()
        optimizer.step()

    lengths = torch.tensor([6, 5, 4, 6])
    return step, (torch.randint(0, 20, (4, 6), device=device), lengths, torch.randint(0, 4, (4,), device=device))


def private_attention_training(device):
    from opacus import GradSampleModule
    from opacus.layers import DPMultiheadAttention
    from opacus.optimizers import DPOptimizer

    model = GradSampleModule(DPMultiheadAttention(16, 2).to(device), batch_first=False)
    base = torch.optim.Adam(model.parameters(), lr=1e-3)
    optimizer = DPOptimizer(base, noise_multiplier=0.8, max_grad_norm=1.0, expected_batch_size=4)

    def step(x, mask):
        optimizer.zero_grad()
        out, _ = model(x, x, x, key_padding_mask=mask)
        out.square().mean().backward()
        optimizer.step()

    mask = torch.zeros(4, 6, dtype=torch.bool, device=device)
    mask[:, -1] = True
    return step, (torch.randn(6, 4, 16, device=device), mask)


def table_training(mask_type):
    """Attention over the columns of a table, with classes."""

    def build(device):
        from pytorch_tabnet.tab_network import TabNet

        model = TabNet(
            10,
            3,
            n_d=4,
            n_a=4,
            n_steps=2,
            cat_idxs=[0, 3],
            cat_dims=[4, 5],
            cat_emb_dim=[2, 2],
            mask_type=mask_type,
            group_attention_matrix=torch.eye(10, device=device),
            virtual_batch_size=8,
        ).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

        def step(x, y):
            out, sparsity = model(x)
            loss = nn.functional.cross_entropy(out, y) - 1e-3 * sparsity
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        x = torch.randn(16, 10)
        x[:, 0], x[:, 3] = torch.randint(0, 4, (16,)).float(), torch.randint(0, 5, (16,)).float()
        return step, (x.to(device), torch.randint(0, 3, (16,), device=device))

    return build


sparse_table_training = table_training("sparsemax")
entmax_table_training = table_training("entmax")


def pretrained_table_training(device):
    """Columns that are hidden and guessed."""
    from pytorch_tabnet.metrics import UnsupervisedLoss
    from pytorch_tabnet.pretraining_utils import validate_eval_set  # noqa: F401
    from pytorch_tabnet.tab_network import TabNetPretraining

    model = TabNetPretraining(
        8,
        pretraining_ratio=0.3,
        n_d=4,
        n_a=4,
        n_steps=2,
        virtual_batch_size=8,
        group_attention_matrix=torch.eye(8, device=device),
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(x):
        out, embedded, hidden = model(x)
        loss = UnsupervisedLoss(out, embedded, hidden)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(16, 8, device=device),)


def augmented_table(device):
    """Rows that are mixed with others, and importances of columns."""
    from pytorch_tabnet.augmentations import ClassificationSMOTE, RegressionSMOTE
    from pytorch_tabnet.tab_network import TabNet

    mixes = ClassificationSMOTE(device_name=device, p=0.5), RegressionSMOTE(device_name=device, p=0.5)
    model = (
        TabNet(6, 2, n_d=4, n_a=4, n_steps=2, virtual_batch_size=8, group_attention_matrix=torch.eye(6, device=device))
        .to(device)
        .eval()
    )

    @torch.no_grad()
    def step(x, y):
        x, y = mixes[0](x, y)
        x, _ = mixes[1](x, y.float()[:, None])
        return model.forward_masks(x)

    return step, (torch.randn(16, 6, device=device), torch.randint(0, 2, (16,), device=device))
