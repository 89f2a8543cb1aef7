"""A second implementation of AdaB2N in NumPy, forward and backward, from the paper's equations.

It shares no code with the first: the batch's statistics are loops over samples, and the gradients
are derived by hand.
"""

from __future__ import annotations

import math

import numpy as np


class ReferenceLayer:
    """One layer in training, x (N, C, H, W) float64."""

    def __init__(self, channels, num_tasks, kappa, momentum=0.1, eps=1e-5, renormalise=False):
        self.gamma, self.beta = np.ones(channels), np.zeros(channels)
        self.psi = np.zeros(num_tasks)
        self.running_mean, self.running_var = np.zeros(channels), np.ones(channels)
        self.kappa, self.momentum, self.eps = kappa, momentum, eps
        self.renormalise = renormalise
        self.steps, self.last_eta = 0, None

    def weights(self, tasks, seen):
        """a_i for each sample, one at a time."""
        n = len(tasks)
        if seen == 1:
            return np.full(n, 1 / n)
        counts = [sum(1 for t in tasks if t == s) for s in range(seen)]
        c = [math.exp(self.psi[s]) + counts[s] for s in range(seen)]
        a = np.array([c[t] / sum(c) / counts[t] for t in tasks])
        return a / a.sum() if self.renormalise else a

    def eta(self):
        if self.kappa == 0:
            return 1 / self.steps
        if self.kappa == 1:
            return self.momentum
        if self.last_eta is None:
            self.last_eta = self.momentum**self.kappa
        else:
            self.last_eta = self.last_eta / (self.last_eta + (1 - self.momentum) ** self.kappa)
        return self.last_eta

    def forward(self, x, tasks, seen):
        self.x, self.tasks, self.seen = x, tasks, seen
        self.a = self.weights(tasks, seen)
        self.mean = sum(a * xi.mean((1, 2)) for a, xi in zip(self.a, x, strict=True))
        self.centred = x - self.mean[None, :, None, None]
        self.var = sum(a * (d**2).mean((1, 2)) for a, d in zip(self.a, self.centred, strict=True))
        self.steps += 1
        eta = self.eta()
        self.running_mean = (1 - eta) * self.running_mean + eta * self.mean
        self.running_var = (1 - eta) * self.running_var + eta * self.var
        self.scale = 1 / np.sqrt(self.var + self.eps)
        self.normalised = self.centred * self.scale[None, :, None, None]
        return self.gamma[None, :, None, None] * self.normalised + self.beta[None, :, None, None]

    def penalty(self):
        """With the running statistics that this step already updated."""
        return ((self.mean - self.running_mean) ** 2).mean() + (
            (self.var - self.running_var) ** 2
        ).mean()

    def backward(self, dy, penalty_weight):
        """Gradients of sum(dy * y) + penalty_weight * penalty: of x, gamma, beta and psi."""
        channels, positions = self.x.shape[1], self.x.shape[2] * self.x.shape[3]
        dgamma = (dy * self.normalised).sum((0, 2, 3))
        dbeta = dy.sum((0, 2, 3))
        dz = dy * self.gamma[None, :, None, None]
        dvar = (dz * self.centred).sum((0, 2, 3)) * -0.5 * self.scale**3
        dvar = dvar + penalty_weight * 2 * (self.var - self.running_var) / channels
        total = self.a.sum()
        # var depends on the mean as well: sum_i a_i (x_i - mean)^2 has -2 sum_i a_i (x_i - mean).
        first = self.mean - total * self.mean
        dmean = -(dz.sum((0, 2, 3)) * self.scale) - 2 * dvar * first
        dmean = dmean + penalty_weight * 2 * (self.mean - self.running_mean) / channels
        dx = dz * self.scale[None, :, None, None]
        dx = (
            dx
            + self.a[:, None, None, None]
            * (dmean[None, :, None, None] + 2 * dvar[None, :, None, None] * self.centred)
            / positions
        )
        da = np.array(
            [
                dmean @ xi.mean((1, 2)) + dvar @ (d**2).mean((1, 2))
                for xi, d in zip(self.x, self.centred, strict=True)
            ]
        )
        return dx, dgamma, dbeta, self._psi_gradient(da)

    def _psi_gradient(self, da):
        """By the quotient rule, one psi at a time."""
        gradient = np.zeros(len(self.psi))
        if self.seen == 1:
            return gradient
        counts = [sum(1 for t in self.tasks if t == s) for s in range(self.seen)]
        e = [math.exp(self.psi[s]) for s in range(self.seen)]
        c = [e[s] + counts[s] for s in range(self.seen)]
        present = [s for s in range(self.seen) if counts[s]]
        whole = sum(c[s] for s in present) if self.renormalise else sum(c)
        for s in range(self.seen):
            if self.renormalise and s not in present:
                continue
            for i, t in enumerate(self.tasks):
                direct = 1 / whole if t == s else 0.0
                gradient[s] += da[i] * (direct - c[t] / whole**2) / counts[t] * e[s]
        return gradient
