"""Statistics and the judge: from the tidy table of metrics to verdicts."""
