"""Fixup: residual networks that train without normalization."""
