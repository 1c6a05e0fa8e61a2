"""Print the lowest version of every dependency as constraints for pip; `make lowest` uses it.

Reads the core dependencies in pyproject.toml and the extras named on the command line. A minimum
has to be a version that exists, since pip is asked for exactly that one.
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
wanted = list(project["dependencies"])
for extra in sys.argv[1:]:
    wanted += project["optional-dependencies"][extra]

for requirement in sorted(set(wanted)):
    found = re.match(r"([\w.-]+)(?:\[[^]]*\])?>=([\w.]+)", requirement)
    if found:
        print(f"{found[1]}=={found[2]}")
    elif not requirement.startswith(f"{project['name']}["):  # our own extras are named one by one
        sys.exit(f"pyproject.toml: {requirement!r} has no lowest version; write name>=version")
