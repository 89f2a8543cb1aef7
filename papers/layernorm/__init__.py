"""Layer normalization: statistics of a layer's units in place of a batch's cases."""
