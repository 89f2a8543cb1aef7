"""The envelope of a run: settings, seeds, device, resume, provenance, metrics and progress.

It assumes nothing of what happens inside a run: a classifier, two optimisers of a GAN, a stream of
tasks, adaptation at test time, a measurement without training.
"""
