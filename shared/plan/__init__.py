"""What the Snakefile needs to know, as plain functions that tests can reach. No torch here."""
