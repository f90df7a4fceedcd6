"""Makes `python -m ampify` the same as `ampify`."""

from ampify.cli import main

if __name__ == "__main__":
    main(prog_name="ampify")
