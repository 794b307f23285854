"""Data: read -> Record -> encode -> ids -> collate -> Batch. Imports no models."""
