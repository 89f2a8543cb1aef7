"""Measures of generated images, on features that a named network gives."""

from shared.evaluation.distance import frechet_distance, kernel_distance
from shared.evaluation.network import ImageClassifier, Inception, Network
from shared.evaluation.quality import ImageQuality
from shared.evaluation.scores import classifier_score, precision_recall

__all__ = [
    "ImageClassifier",
    "ImageQuality",
    "Inception",
    "Network",
    "classifier_score",
    "frechet_distance",
    "kernel_distance",
    "precision_recall",
]
