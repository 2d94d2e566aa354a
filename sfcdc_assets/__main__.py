"""`python -m sfcdc_assets`: the `sfcdc` command."""

from sfcdc_assets.cli.__main__ import main

if __name__ == "__main__":
    main()
