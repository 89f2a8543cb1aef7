"""AdaB2N: batch statistics for continual learning, balanced over tasks."""
