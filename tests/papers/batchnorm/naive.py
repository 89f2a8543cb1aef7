"""The paper's equations once more, in NumPy and float64, without torch and without the layers.

Shapes: x_MF (values of one feature in a column); images x_NCHW.
"""

from __future__ import annotations

import numpy as np


def batch_norm(x_MF, gamma_F, beta_F, eps):
    """Algorithm 1: the biased variance, eps inside the root."""
    mean_F = x_MF.sum(0) / len(x_MF)
    var_F = ((x_MF - mean_F) ** 2).sum(0) / len(x_MF)
    return gamma_F * (x_MF - mean_F) / np.sqrt(var_F + eps) + beta_F


def batch_norm_backward(x_MF, gamma_F, eps, dy_MF):
    """The chain of section 3, term by term: dl/dx, dl/dgamma, dl/dbeta."""
    m = len(x_MF)
    mean_F = x_MF.mean(0)
    var_F = ((x_MF - mean_F) ** 2).mean(0)
    root_F = np.sqrt(var_F + eps)
    xhat_MF = (x_MF - mean_F) / root_F
    dxhat_MF = dy_MF * gamma_F
    dvar_F = (dxhat_MF * (x_MF - mean_F)).sum(0) * -0.5 * (var_F + eps) ** -1.5
    dmean_F = -(dxhat_MF / root_F).sum(0) + dvar_F * (-2 * (x_MF - mean_F)).sum(0) / m
    dx_MF = dxhat_MF / root_F + dvar_F * 2 * (x_MF - mean_F) / m + dmean_F / m
    return dx_MF, (dy_MF * xhat_MF).sum(0), dy_MF.sum(0)


def places(x_NCHW):
    """All places of all images as rows: m' = m p q of them."""
    return x_NCHW.transpose(0, 2, 3, 1).reshape(-1, x_NCHW.shape[1])


def images(x_MC, shape):
    n, c, h, w = shape
    return x_MC.reshape(n, h, w, c).transpose(0, 3, 1, 2)


def convolution(x_NCHW, weight_OCKK, bias_O, stride):
    """Cross-correlation with zeros around the image."""
    size = weight_OCKK.shape[-1]
    around = size // 2
    padded = np.pad(x_NCHW, ((0, 0), (0, 0), (around, around), (around, around)))
    height, width = ((side - 1) // stride + 1 for side in x_NCHW.shape[2:])
    out = np.zeros((len(x_NCHW), len(weight_OCKK), height, width))
    for i in range(height):
        for j in range(width):
            window = padded[:, :, i * stride : i * stride + size, j * stride : j * stride + size]
            out[:, :, i, j] = np.einsum("nckl,ockl->no", window, weight_OCKK)
    return out if bias_O is None else out + bias_O[:, None, None]


def pooled(x_NCHW, stride, reduce, fill):
    """A reduction over 3x3 windows with `fill` around the image."""
    padded = np.pad(x_NCHW, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=fill)
    height, width = ((side - 1) // stride + 1 for side in x_NCHW.shape[2:])
    rows = []
    for i in range(height):
        windows = [
            padded[:, :, i * stride : i * stride + 3, j * stride : j * stride + 3]
            for j in range(width)
        ]
        rows.append(np.stack([reduce(w, axis=(2, 3)) for w in windows], axis=-1))
    return np.stack(rows, axis=2)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))
