"""Repairs: small passes over a model, each proven before it is kept; a stage of its own."""
