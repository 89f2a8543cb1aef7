"""Normalisation layers on the operators of `shared.kernels`; see `registry.REGISTRY`."""

from shared.norms.batch import BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm
from shared.norms.clip import clip_adaptively_
from shared.norms.gradient import gradient_norm, gran
from shared.norms.group import GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from shared.norms.layer import LayerNorm, RMSNorm
from shared.norms.modulation import SPADE, ConditionalNorm, adain
from shared.norms.pointwise import Derf, DyT, ScalarTail
from shared.norms.registry import REGISTRY
from shared.norms.replace import replace_norms
from shared.norms.spectral import SpectralNorm
from shared.norms.statistics import Moments, mix, moments, per_task, pool, standardise
from shared.norms.weight import (
    activation_gain,
    normalise_weight,
    scaled_standardise_weight,
    standardise_weight,
    standardised,
)

__all__ = [
    "REGISTRY",
    "SPADE",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "ConditionalNorm",
    "Derf",
    "DyT",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "Moments",
    "RMSNorm",
    "ScalarTail",
    "SpectralNorm",
    "SyncBatchNorm",
    "activation_gain",
    "adain",
    "clip_adaptively_",
    "gradient_norm",
    "gran",
    "mix",
    "moments",
    "normalise_weight",
    "per_task",
    "pool",
    "replace_norms",
    "scaled_standardise_weight",
    "standardise",
    "standardise_weight",
    "standardised",
]
