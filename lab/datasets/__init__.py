"""Seeded generators of the streams that papers and demonstrations use; loaders of real data."""
