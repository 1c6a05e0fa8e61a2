"""Builds the site: stages the pages, makes some of them from code, and checks the result."""
