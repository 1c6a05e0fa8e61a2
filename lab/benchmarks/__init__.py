"""One module per benchmark, each with ``run(scale, progress)``: see ``lab.bench``."""
