"""Training: the loop, optimizers, schedules, precision, checkpoints."""
