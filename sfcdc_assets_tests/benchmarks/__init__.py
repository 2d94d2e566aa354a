"""What each stage costs, beside what a user would pick instead: `python -m sfcdc_assets_tests.benchmarks --help`.

Each stage is a module of this package with a `STAGE` (see `stage.py`), named in `stages.py`. The runner gives it a
process of its own. A stage makes its data, measures contestants in turn (`interleave.py`), compares what they made, and
returns one `Figure` for each case and measure. A result that differs raises `WrongAnswer`: a fast wrong answer is a
failure, whatever the time. `--quick` uses sizes that show the results and say nothing about speed.

The last full figures lie in docs/benchmarks.json and, drawn from it, in docs/benchmarks.md.
"""
