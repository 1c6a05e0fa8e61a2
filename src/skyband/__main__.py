"""The command line: ``python -m skyband``, or ``skyband``; without arguments, the demo."""

from __future__ import annotations

import sys

from skyband.errors import how_to_install


def main() -> None:
    """Run the command line."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401

        from skyband.cli.app import app

        app(sys.argv[1:] or ["demo"], prog_name="skyband")
    except ImportError as missing:
        if missing.name not in ("rich", "typer"):
            raise
        hint = f"the command line needs {missing.name}: {how_to_install('cli')}"
        print(f"skyband: {hint}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:  # before a verb begins
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
