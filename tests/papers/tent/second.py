"""Tent written a second time: NumPy, float64, gradients by hand, from the equations alone.

The network is conv1x1 - batch norm - relu - conv1x1 - batch norm - relu - mean over the positions -
linear. Legend: N samples, P positions, I and O channels in and out, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

EPS = 1e-5


@dataclass
class Adam:
    """Kingma, Ba (2015), algorithm 1."""

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    step: int = 0
    first: dict[str, np.ndarray] = field(default_factory=dict)
    second: dict[str, np.ndarray] = field(default_factory=dict)

    def update(self, parameters: dict[str, np.ndarray], gradients: dict[str, np.ndarray]) -> None:
        self.step += 1
        for name, g in gradients.items():
            m = self.betas[0] * self.first.get(name, 0.0) + (1 - self.betas[0]) * g
            v = self.betas[1] * self.second.get(name, 0.0) + (1 - self.betas[1]) * g**2
            self.first[name], self.second[name] = m, v
            m_hat = m / (1 - self.betas[0] ** self.step)
            v_hat = v / (1 - self.betas[1] ** self.step)
            parameters[name] = parameters[name] - self.lr * m_hat / (np.sqrt(v_hat) + self.eps)


class SecondTent:
    """Forward and one step for each batch.

    Args:
        weights: conv1 (O, I), conv2 (O, I), linear (K, I), bias (K,), gamma1, beta1, gamma2,
            beta2; with `frozen` also mean1, var1, mean2, var2.
        frozen: normalise by the given statistics instead of those of the batch.
        pseudo_label: cross-entropy to the most likely class instead of the entropy.
    """

    def __init__(
        self,
        weights: dict[str, np.ndarray],
        lr: float,
        frozen: bool = False,
        pseudo_label: bool = False,
    ) -> None:
        self.w = {name: value.copy() for name, value in weights.items()}
        self.optimiser = Adam(lr)
        self.frozen = frozen
        self.pseudo_label = pseudo_label

    def norm(self, x_NCP: np.ndarray, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Output, normalised values, 1 / sqrt(var + eps)."""
        if self.frozen:
            mean, var = self.w[f"mean{index}"], self.w[f"var{index}"]
        else:
            mean = x_NCP.mean((0, 2))
            var = ((x_NCP - mean[:, None]) ** 2).mean((0, 2))
        rstd = 1 / np.sqrt(var + EPS)
        hat = (x_NCP - mean[:, None]) * rstd[:, None]
        gamma, beta = self.w[f"gamma{index}"], self.w[f"beta{index}"]
        return hat * gamma[:, None] + beta[:, None], hat, rstd

    def norm_backward(
        self, dy_NCP: np.ndarray, hat: np.ndarray, rstd: np.ndarray, index: int
    ) -> np.ndarray:
        dhat = dy_NCP * self.w[f"gamma{index}"][:, None]
        if self.frozen:
            return dhat * rstd[:, None]
        mean = dhat.mean((0, 2))[:, None]
        along = (dhat * hat).mean((0, 2))[:, None]
        return (dhat - mean - hat * along) * rstd[:, None]

    def __call__(self, x_NCP: np.ndarray) -> np.ndarray:
        """Logits from before the step."""
        w = self.w
        n1, hat1, _ = self.norm(np.einsum("oi,nip->nop", w["conv1"], x_NCP), 1)
        a1 = np.maximum(n1, 0)
        n2, hat2, rstd2 = self.norm(np.einsum("oi,nip->nop", w["conv2"], a1), 2)
        a2 = np.maximum(n2, 0)
        logits_NK = a2.mean(2) @ w["linear"].T + w["bias"]

        p_NK = np.exp(logits_NK - logits_NK.max(1, keepdims=True))
        p_NK /= p_NK.sum(1, keepdims=True)
        if self.pseudo_label:
            target = np.eye(p_NK.shape[1])[p_NK.argmax(1)]
            dlogits = (p_NK - target) / len(p_NK)
        else:
            h_N1 = -(p_NK * np.log(p_NK)).sum(1, keepdims=True)
            dlogits = -p_NK * (np.log(p_NK) + h_N1) / len(p_NK)
        da2 = (dlogits @ w["linear"])[:, :, None] / a2.shape[2]
        dn2 = da2 * (n2 > 0)
        da1 = np.einsum("oi,nop->nip", w["conv2"], self.norm_backward(dn2, hat2, rstd2, 2))
        dn1 = da1 * (n1 > 0)
        gradients = {
            "gamma1": (dn1 * hat1).sum((0, 2)),
            "beta1": dn1.sum((0, 2)),
            "gamma2": (dn2 * hat2).sum((0, 2)),
            "beta2": dn2.sum((0, 2)),
        }
        self.optimiser.update(w, gradients)
        return logits_NK
