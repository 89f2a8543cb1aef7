"""Tent: test-time adaptation by minimising the entropy of the predictions."""
