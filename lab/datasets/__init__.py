"""Seeded generators for the streams of the papers and demonstrations; loaders of real data."""
