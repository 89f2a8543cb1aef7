"""Kernels of other packages, where they are installed; never needed by users."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable
from typing import Any

from torch import Tensor

Function = Callable[..., Tensor]
# Name of the peer -> (module, package on the index, whether it runs on a CPU).
PEERS = {
    "liger": ("liger_kernel", "liger-kernel", False),
    "quack": ("quack", "quack-kernels", False),
    "apex": ("apex", "apex", False),
    "timm": ("timm", "timm", True),
}


def takes_part(peer: str, device: str) -> bool:
    """Whether a peer is installed and runs on the device."""
    module, _, on_cpu = PEERS[peer]
    return (device == "cuda" or on_cpu) and importlib.util.find_spec(module) is not None


def present(device: str) -> dict[str, str]:
    """Every peer's version, or why it takes no part."""
    found = {}
    for peer, (module, package, on_cpu) in PEERS.items():
        if device != "cuda" and not on_cpu:
            found[peer] = "needs a GPU"
        elif importlib.util.find_spec(module) is None:
            found[peer] = "not installed"
        else:
            found[peer] = importlib.metadata.version(package)
    return found


def _load(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def layer_norm(device: str) -> dict[str, Function]:
    """Peers' layer norms as functions of x, weight and bias."""
    found: dict[str, Function] = {}
    if takes_part("liger", device):
        liger = _load("liger_kernel.ops.layer_norm", "LigerLayerNormFunction")
        found["liger"] = lambda x, w, b: liger.apply(x, w, b, 1e-5)
    if takes_part("apex", device):
        apex = _load("apex.normalization.fused_layer_norm", "fused_layer_norm_affine")
        found["apex"] = lambda x, w, b: apex(x, w, b, x.shape[1:], 1e-5)
    if takes_part("timm", device):
        timm = _load("timm.layers.fast_norm", "fast_layer_norm")
        found["timm"] = lambda x, w, b: timm(x, x.shape[1:], w, b, 1e-5)
    return found


def rms_norm(device: str) -> dict[str, Function]:
    """Peers' RMS norms as functions of x and weight."""
    found: dict[str, Function] = {}
    if takes_part("liger", device):
        liger = _load("liger_kernel.ops.rms_norm", "LigerRMSNormFunction")
        found["liger"] = lambda x, w: liger.apply(x, w, 1e-5)
    if takes_part("quack", device):
        quack = _load("quack", "rmsnorm")
        found["quack"] = lambda x, w: quack(x, w, eps=1e-5)
    if takes_part("apex", device):
        apex = _load("apex.normalization.fused_layer_norm", "fused_rms_norm_affine")
        found["apex"] = lambda x, w: apex(x, w, x.shape[1:], 1e-5)
    if takes_part("timm", device):
        timm = _load("timm.layers.fast_norm", "fast_rms_norm")
        found["timm"] = lambda x, w: timm(x, x.shape[1:], w, 1e-5)
    return found
