"""Steps of Pyro: variational inference, sampling chains, particles and Gaussian processes."""

import torch
from torch import nn


def line(device, size=32):
    x = torch.randn(size, 3, device=device)
    return x, x.sum(-1) + 0.1 * torch.randn(size, device=device)


def regression(x, y=None):
    import pyro
    import pyro.distributions as dist

    weights = pyro.sample("weights", dist.Normal(x.new_zeros(3), x.new_ones(3)).to_event(1))
    spread = pyro.sample("spread", dist.HalfCauchy(x.new_ones(())))
    with pyro.plate("data", x.shape[0]):
        return pyro.sample("seen", dist.Normal((x * weights).sum(-1), spread), obs=y)


def variational_regression(device):
    import pyro
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoDiagonalNormal

    pyro.clear_param_store()
    inference = SVI(regression, AutoDiagonalNormal(regression), pyro.optim.ClippedAdam({"lr": 0.01}), Trace_ELBO())
    return inference.step, line(device)


class Autoencoder(nn.Module):
    """A variational autoencoder as the library's first example has it."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(16, 32), nn.Softplus(), nn.Linear(32, 8))
        self.decode = nn.Sequential(nn.Linear(4, 32), nn.Softplus(), nn.Linear(32, 16))

    def model(self, x):
        import pyro
        import pyro.distributions as dist

        pyro.module("decode", self.decode)
        with pyro.plate("data", x.shape[0]):
            z = pyro.sample("z", dist.Normal(x.new_zeros(x.shape[0], 4), x.new_ones(x.shape[0], 4)).to_event(1))
            pyro.sample("x", dist.Bernoulli(logits=self.decode(z)).to_event(1), obs=x)

    def guide(self, x):
        import pyro
        import pyro.distributions as dist

        pyro.module("encode", self.encode)
        with pyro.plate("data", x.shape[0]):
            middle, spread = self.encode(x).chunk(2, -1)
            pyro.sample("z", dist.Normal(middle, spread.exp()).to_event(1))


def variational_autoencoder(device):
    import pyro
    from pyro.infer import SVI, TraceMeanField_ELBO

    pyro.clear_param_store()
    vae = Autoencoder().to(device)
    inference = SVI(vae.model, vae.guide, pyro.optim.Adam({"lr": 1e-3}), TraceMeanField_ELBO())
    return inference.step, ((torch.rand(16, 16, device=device) > 0.5).float(),)


def mixture(x):
    import pyro
    import pyro.distributions as dist

    shares = pyro.sample("shares", dist.Dirichlet(x.new_ones(3)))
    with pyro.plate("parts", 3):
        middles = pyro.sample("middles", dist.Normal(x.new_zeros(()), x.new_tensor(5.0)))
    with pyro.plate("data", x.shape[0]):
        part = pyro.sample("part", dist.Categorical(shares), infer={"enumerate": "parallel"})
        pyro.sample("seen", dist.Normal(middles[part], x.new_ones(())), obs=x)


def enumerated_mixture(device):
    import pyro
    from pyro import poutine
    from pyro.infer import SVI, TraceEnum_ELBO
    from pyro.infer.autoguide import AutoDelta

    pyro.clear_param_store()
    guide = AutoDelta(poutine.block(mixture, expose=["shares", "middles"]))
    inference = SVI(mixture, guide, pyro.optim.Adam({"lr": 0.05}), TraceEnum_ELBO(max_plate_nesting=1))
    return inference.step, (torch.randn(32, device=device) * 3,)


def chain(kernel, **options):
    """One transition of a Markov chain, after its set-up."""

    def build(device):
        from pyro.infer import mcmc

        x, y = line(device)
        moves = getattr(mcmc, kernel)(regression, **options)
        moves.setup(0, x, y)
        state = [moves.initial_params]

        def step():
            state[0] = moves.sample(state[0])
            return state[0]

        return step, ()

    return build


hamiltonian_transition = chain("HMC", step_size=0.05, num_steps=4, adapt_step_size=False)
no_u_turn_transition = chain("NUTS", step_size=0.1, adapt_step_size=False, max_tree_depth=4)


def particles(device):
    import pyro
    from pyro.infer import SVGD, RBFSteinKernel

    pyro.clear_param_store()
    inference = SVGD(
        regression, RBFSteinKernel(), pyro.optim.Adagrad({"lr": 0.1}), num_particles=8, max_plate_nesting=1
    )
    return inference.step, line(device)


def posterior_prediction(device):
    from pyro.infer import Predictive

    x, _ = line(device)
    samples = {"weights": torch.randn(20, 1, 3, device=device), "spread": torch.rand(20, 1, device=device) + 0.1}
    predict = Predictive(regression, samples, parallel=True)
    return predict, (x,)


def sparse_process_training(device):
    import pyro.contrib.gp as gp
    from pyro.infer import TraceMeanField_ELBO

    x, y = line(device)
    kernel = gp.kernels.RBF(3, variance=torch.tensor(1.0, device=device), lengthscale=torch.ones(3, device=device))
    model = gp.models.SparseGPRegression(x, y, kernel, Xu=x[:8].clone(), noise=torch.tensor(0.1, device=device))
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    measure = TraceMeanField_ELBO().differentiable_loss

    def step():
        optimizer.zero_grad()
        loss = measure(model.model, model.guide)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, ()


def filtered_states(device):
    """The likelihood of a series under a linear state space model, and the mean of the filtered last state."""
    import pyro.distributions as dist

    def gaussian(size):
        return dist.MultivariateNormal(torch.zeros(size, device=device), scale_tril=torch.eye(size, device=device))

    turn, view = torch.eye(3, device=device), torch.randn(3, 2, device=device)

    @torch.no_grad()
    def step(series):
        model = dist.GaussianHMM(gaussian(3), turn, gaussian(3), view, gaussian(2), duration=12)
        return model.log_prob(series), model.filter(series).mean

    return step, (torch.randn(12, 2, device=device),)
