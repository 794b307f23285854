"""Measure: how good a model is, in figures that can be compared with other people's."""
