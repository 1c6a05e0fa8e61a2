"""Seeded generators of each paper, and loaders of real data where a folder of it is given."""
