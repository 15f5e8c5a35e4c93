"""Steps of blitz: Bayesian layers trained by sampled evidence bounds."""

import torch
from torch import nn


def sampled_evidence(kind, **options):
    def build(device):
        from blitz import modules as bm
        from blitz.utils import variational_estimator

        @variational_estimator
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                if kind == "linear":
                    self.body, self.head = bm.BayesianLinear(8, 16, **options), bm.BayesianLinear(16, 4)
                elif kind == "conv":
                    self.body, self.head = bm.BayesianConv2d(1, 4, (3, 3), **options), bm.BayesianLinear(144, 4)
                elif kind == "lstm":
                    self.body, self.head = bm.BayesianLSTM(8, 16, **options), nn.Linear(16, 4)
                elif kind == "gru":
                    self.body, self.head = bm.BayesianGRU(8, 16, **options), nn.Linear(16, 4)
                else:
                    self.body, self.head = bm.BayesianEmbedding(10, 16, **options), bm.BayesianLinear(16, 4)

            def forward(self, x):
                x = self.body(x)
                if kind in ("lstm", "gru"):
                    x = x[0][:, -1]
                elif kind == "embedding":
                    x = x.mean(1)
                return self.head(torch.relu(x).flatten(1))

        model = Net().to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        criterion = nn.CrossEntropyLoss()

        def step(x, y):
            loss = model.sample_elbo(inputs=x, labels=y, criterion=criterion, sample_nbr=2, complexity_cost_weight=0.01)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        x = {
            "linear": lambda: torch.rand(6, 8),
            "conv": lambda: torch.rand(6, 1, 8, 8),
            "embedding": lambda: torch.randint(0, 10, (6, 5)),
        }.get(kind, lambda: torch.rand(6, 5, 8))()
        return step, (x.to(device), torch.randint(0, 4, (6,), device=device))

    return build


linear_evidence_training = sampled_evidence("linear", prior_sigma_1=0.5, prior_pi=0.5)
convolution_evidence_training = sampled_evidence("conv", bias=False)
recurrent_evidence_training = sampled_evidence("lstm", peephole=True)
gated_evidence_training = sampled_evidence("gru")
sharpened_evidence_training = sampled_evidence("lstm", sharpen=True)
embedding_evidence_training = sampled_evidence("embedding", padding_idx=0)


def uncertain_predictions(device):
    """Detailed bounds, means and deviations of predictions; frozen weights."""
    from blitz.modules import BayesianLinear
    from blitz.utils import variational_estimator

    @variational_estimator
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = BayesianLinear(8, 16), BayesianLinear(16, 1)

        def forward(self, x):
            return self.two(torch.relu(self.one(x)))

    model = Net().to(device)

    def step(x, y):
        detailed = model.sample_elbo_detailed_loss(inputs=x, labels=y, criterion=nn.MSELoss(), sample_nbr=2)
        mean = model.mfvi_forward(x, sample_nbr=3)
        model.freeze_()
        frozen = model(x)
        model.unfreeze_()
        return detailed, mean, frozen, model.nn_kl_divergence()

    return step, (torch.rand(6, 8, device=device), torch.rand(6, 1, device=device))


def flipped_layers(device):
    """Flipout and radial noise around a layer."""
    from blitz.modules import BayesianLinear
    from blitz.utils import Flipout, Radial

    layers = nn.Sequential(Flipout(BayesianLinear)(8, 16), nn.ReLU(), Radial(BayesianLinear)(16, 4)).to(device)

    def step(x):
        out = layers(x)
        out.square().mean().backward()
        return out.detach()

    return step, (torch.rand(6, 8, device=device),)
