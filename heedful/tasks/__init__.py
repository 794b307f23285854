"""Tasks: batch + outputs -> loss and metrics, outside the model."""
