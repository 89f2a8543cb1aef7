"""NF-ResNets: residual networks whose signal is kept in shape without normalization."""
