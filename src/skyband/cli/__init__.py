"""The command line; the modules here need the ``cli`` extra."""
