"""Steps of Gaussian processes: gpytorch and botorch."""

import torch


def points(device, count=20):
    return torch.rand(count, 2, device=device)


def kernel_matrix(device):
    from gpytorch.kernels import RBFKernel, ScaleKernel

    kernel = ScaleKernel(RBFKernel(ard_num_dims=2)).to(device)

    @torch.no_grad()
    def step(left, right):
        return kernel(left, right).to_dense()

    return step, (points(device), points(device, 8))


def exact_prediction(device):
    import gpytorch

    class Model(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x = points(device)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(x, x.sum(1).sin(), likelihood).to(device).eval()

    @torch.no_grad()
    def step(new):
        return model(new).mean

    return step, (points(device, 5),)


def variational_training(device):
    import gpytorch

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, inducing):
            distribution = gpytorch.variational.CholeskyVariationalDistribution(inducing.shape[0])
            super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, distribution))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Model(points(device, 8)).to(device).train()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(device)
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=20)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, capturable=True)

    def step(x, y):
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (points(device), torch.randn(20, device=device))


def expected_improvement(device):
    from botorch.acquisition import LogExpectedImprovement
    from botorch.models import SingleTaskGP

    x = points(device).double()
    model = SingleTaskGP(x, x.sum(1, keepdim=True).sin())
    acquisition = LogExpectedImprovement(model, best_f=0.5)

    @torch.no_grad()
    def step(candidates):
        return acquisition(candidates)

    return step, (points(device, 6).double().unsqueeze(1),)


def sampled_posterior(device):
    from botorch.sampling import SobolQMCNormalSampler

    base = torch.Size([16])
    sampler = SobolQMCNormalSampler(sample_shape=base, seed=3)

    from botorch.posteriors import GPyTorchPosterior
    from gpytorch.distributions import MultivariateNormal

    @torch.no_grad()
    def step(mean, root):
        covariance = root @ root.transpose(-1, -2) + torch.eye(root.shape[-1], device=root.device, dtype=root.dtype)
        return sampler(GPyTorchPosterior(MultivariateNormal(mean, covariance)))

    return step, (torch.randn(4, device=device).double(), torch.randn(4, 4, device=device).double())
