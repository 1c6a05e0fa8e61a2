"""The command line; the modules here need the ``cli`` extra.

Imports everything below it; only ``skyband.__main__`` imports it, so nothing else needs typer or
rich.
"""
